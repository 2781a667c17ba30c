#include "ringrad/parallel/comm/network/mpi_group.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/no_broken_pipe.h"
#include "ringrad/parallel/comm/job/rank_environment.h"
#include "ringrad/parallel/comm/network/mpi_segments.h"
#include "ringrad/parallel/comm/network/mpi_watchdog.h"
#include "ringrad/parallel/comm/store/store_server.h"

namespace ringrad {
namespace {

using Clock = TransportCall::Clock;

// Rounds of a wait: as between threads, first it asks, then it lets others run, then it sleeps.
constexpr int kSpins = 200;
constexpr auto kYieldTime = std::chrono::milliseconds(1);
constexpr auto kSleep = std::chrono::microseconds(50);

constexpr int kTag = 0;         // messages of one group arrive in order
constexpr int kTags = 1 << 15;  // that every MPI has

void check(int status) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw TransportError(text.data());
}

// Asks until the request is done or go_on() is false, or throws.
template <class GoOn>
bool is_done_in_time(MPI_Request& request, GoOn go_on) {
  const auto begin = Clock::now();
  for (int round = 0;; ++round) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return true;
    if (!go_on()) return false;
    if (round < kSpins) continue;
    if (Clock::now() - begin < kYieldTime)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
}

// Throws: TransportError when the call is over
void finish(MPI_Request& request, const TransportCall& call) {
  is_done_in_time(request, [&] {
    call.check();
    return true;
  });
}

// --- The process's part in MPI ---

std::atomic<bool> has_failed = false;
std::atomic<double> longest_deadline_s = 0;  // of the groups so far

// False if MPI does not provide MPI_THREAD_MULTIPLE: then the thread that initialised it makes all
// calls.
std::atomic<bool> provides_all_threads = true;

bool is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

// Throws: CollectiveError if this thread may not call MPI, or none may any longer
void check_mpi(Where where) {
  RINGRAD_CHECK(!is_finalized(), CollectiveError, where,
                "mpi group: calls must come before the program's MPI_Finalize(); got one after it");
  if (provides_all_threads) return;
  int is_main = 0;
  MPI_Is_thread_main(&is_main);
  RINGRAD_CHECK(is_main != 0, CollectiveError, where,
                "mpi group: without MPI_THREAD_MULTIPLE, which MPI_Init_thread() can ask for, the "
                "thread that initialised MPI must make all calls; got another thread");
}

// The store that this process serves, if it does: to its end.
std::unique_ptr<StoreServer>& own_server() {
  static std::unique_ptr<StoreServer> server;
  return server;
}

// At most a year: groups may wait forever.
std::chrono::milliseconds whole_milliseconds(double seconds) {
  constexpr double kYear_s = 365.0 * 24 * 3600;
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * std::min(seconds, kYear_s)));
}

class Session {
 public:
  /// Throws nothing: if MPI does not come up within `limit`, it ends the process (mpi_watchdog.h).
  static void begin(std::chrono::milliseconds limit) { static const Session session(limit); }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  explicit Session(std::chrono::milliseconds limit) {
    const NoBrokenPipe guard;  // for the threads that it starts
    int initialized = 0, level = 0;
    MPI_Initialized(&initialized);
    is_ours_ = initialized == 0;
    if (is_ours_) {
      const MpiWatchdog watchdog("MPI_Init", limit, remove_job_segments);
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
      segment_.emplace();
    }
    MPI_Query_thread(&level);
    provides_all_threads = level == MPI_THREAD_MULTIPLE;
    if (is_ours_) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    own_server();  // made first, it ends after this
  }

  // MPI_Finalize waits for all ranks. After a failure some may never come: this one waits no longer
  // than in a call, and leaves it to mpirun to end the job.
  ~Session() {
    const NoBrokenPipe guard;
    const std::chrono::milliseconds limit = whole_milliseconds(longest_deadline_s);
    if (!is_ours_ || is_finalized()) return;
    MPI_Request all_end = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &all_end) != MPI_SUCCESS) return;
    try {
      const auto begin = Clock::now();
      if (is_done_in_time(all_end, [&] {
            const std::chrono::duration<double> waited = Clock::now() - begin;
            return !has_failed || waited.count() < longest_deadline_s;
          })) {
        const MpiWatchdog watchdog("MPI_Finalize", limit, remove_job_segments);
        if (segment_) segment_->restore_name();
        MPI_Finalize();
      }
    } catch (const TransportError&) {  // then MPI is not finalised
    }
  }

  bool is_ours_ = false;
  std::optional<NamelessSegment> segment_;
};

// --- The transport ---

// Memory that MPI may use until a request is done: forever, if no thread waits for the request.
struct Used {
  std::vector<Tensor> memory;
  std::vector<std::vector<int>> numbers;

  void keep() && {
    static auto* const kept = new std::vector<Used>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    kept->push_back(std::move(*this));
    has_failed = true;
  }
};

class MpiSending final : public Sending {
 public:
  MpiSending(MPI_Request request, const Tensor& memory) : request_(request), memory_(memory) {}
  ~MpiSending() override {
    if (is_finalized()) return;  // which has completed it
    int done = 0;
    if (MPI_Test(&request_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0)
      Used{{memory_}, {}}.keep();
  }
  void wait(TransportCall& call) override {
    if (!is_finalized()) finish(request_, call);
  }

 private:
  MPI_Request request_;
  const Tensor memory_;
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~MpiTransport() override {
    if (!is_finalized() && !has_failed) MPI_Comm_free(&comm_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  void all_gather(std::byte* out, Sizes bytes, TransportCall& call) override {
    perform(call, {counts_of(bytes), places_of(bytes)}, [&](const auto& numbers, auto* request) {
      return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, out, numbers[0].data(), numbers[1].data(),
                             MPI_BYTE, comm_, request);
    });
  }

  void all_to_all(std::byte* out, Sizes out_bytes, const std::byte* in, Sizes in_bytes,
                  TransportCall& call) override {
    perform(call,
            {counts_of(in_bytes), places_of(in_bytes), counts_of(out_bytes), places_of(out_bytes)},
            [&](const auto& numbers, auto* request) {
              return MPI_Ialltoallv(in, numbers[0].data(), numbers[1].data(), MPI_BYTE, out,
                                    numbers[2].data(), numbers[3].data(), MPI_BYTE, comm_, request);
            });
  }

  void broadcast(std::byte* data, std::size_t bytes, int root, TransportCall& call) override {
    perform(call, {}, [&](const auto&, auto* request) {
      return MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, comm_, request);
    });
  }

  std::unique_ptr<Sending> send(const std::byte* data, std::size_t bytes, int to,
                                const Tensor& memory) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kTag, comm_, &request));
    return std::make_unique<MpiSending>(request, memory);
  }

  void recv(std::byte* data, std::size_t bytes, int from, TransportCall& call) override {
    perform(call, {}, [&](const auto&, auto* request) {
      return MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, kTag, comm_, request);
    });
  }

  std::unique_ptr<Transport> split(Store&, const std::vector<int>& ranks, int,
                                   const std::string& name, Where where) override {
    try {
      MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
      MPI_Comm comm = MPI_COMM_NULL;
      check(MPI_Comm_group(comm_, &all));
      check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some));
      const int tag = static_cast<int>(std::hash<std::string>()(name) % kTags);
      check(MPI_Comm_create_group(comm_, some, tag, &comm));
      MPI_Group_free(&some);
      MPI_Group_free(&all);
      return std::make_unique<MpiTransport>(comm);
    } catch (const TransportError& error) {
      throw CollectiveError(concat("split: MPI must make a group; got ", error.what()), where);
    }
  }
  void check_usable(Where where) const override { check_mpi(where); }
  bool serves_all_threads() const override { return provides_all_threads; }
  bool outlives_ranks() const override { return false; }

 private:
  using Numbers = std::vector<int>;

  static Numbers counts_of(Sizes bytes) { return {bytes.begin(), bytes.end()}; }
  // Where parts begin that lie one after the other.
  static Numbers places_of(Sizes bytes) {
    Numbers places(bytes.size());
    std::exclusive_scan(bytes.begin(), bytes.end(), places.begin(), 0);
    return places;
  }

  // Begins a request with numbers that stay where they are, and waits for it.
  template <class Begin>
  void perform(TransportCall& call, std::vector<Numbers> numbers, Begin begin) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(begin(numbers, &request));
    try {
      finish(request, call);
    } catch (const TransportError&) {
      Used{call.memory(), std::move(numbers)}.keep();
      throw;
    }
  }

  MPI_Comm comm_;
};

// --- Joining ---

// The ranks of a communicator, and this one among them. Without a communicator, this process alone.
struct Members {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, world_size = 1;

  Members() = default;
  explicit Members(MPI_Comm of) : comm(of) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &world_size);
  }
};

bool is_initialized() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

// Where MPI and the environment see the same ranks. A process that is alone needs no MPI.
Members members_of_job(std::chrono::milliseconds limit, Where where) {
  const RankEnvironment job = rank_environment(where);
  if (!is_initialized() && std::getenv("PMIX_RANK") == nullptr &&
      std::getenv("PMI_RANK") == nullptr) {
    RINGRAD_CHECK(job.world_size == 1, ValueError, where,
                  "mpi group: ranks must be started by mpirun, or by srun with PMIx; got ",
                  job.world_size, " ranks of another launcher");
    return {};
  }
  Session::begin(limit);
  check_mpi(where);
  const Members all(MPI_COMM_WORLD);
  RINGRAD_CHECK(all.world_size == job.world_size && all.rank == job.rank, ValueError, where,
                "mpi group: MPI and the environment must agree; got rank ", all.rank, " of ",
                all.world_size, ", and rank ", job.rank, " of ", job.world_size);
  return all;
}

Members members_of(int handle, std::chrono::milliseconds limit, Where where) {
  RINGRAD_CHECK(is_initialized(), ValueError, where,
                "mpi group: a program that gives a communicator must call MPI_Init() first");
  check_mpi(where);
  MPI_Comm const comm = MPI_Comm_f2c(handle);
  int is_between_groups = 0;
  if (comm != nullptr && comm != MPI_COMM_NULL) MPI_Comm_test_inter(comm, &is_between_groups);
  RINGRAD_CHECK(comm != nullptr && comm != MPI_COMM_NULL && is_between_groups == 0, ValueError,
                where, "mpi group: the communicator must be MPI_Comm_c2f() of one group's; got ",
                is_between_groups != 0 ? "one between two groups" : "none that exists");
  Session::begin(limit);
  return Members(comm);
}

// The same ranks, as a communicator of our own.
std::unique_ptr<MpiTransport> copy_of(MPI_Comm comm, TransportCall& call) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(comm, &copy, &request));
  finish(request, call);
  return std::make_unique<MpiTransport>(copy);
}

// On this machine alone, or on all its networks.
const StoreAddress& serve_store(bool is_one_host, Where where) {
  auto& server = own_server();
  if (!server)
    server = std::make_unique<StoreServer>(
        StoreAddress{is_one_host ? "127.0.0.1" : "0.0.0.0", 0, {}}, where);
  return server->address();
}

// The number of a group among those whose store this process serves.
int next_group() {
  static std::atomic<int> groups = 0;
  return groups++;
}

struct GroupStore {
  Store store;
  int group;
};

// Rank 0 serves it, and tells the others where, and the group's number.
GroupStore open_store(MpiTransport& transport, const Members& members, TransportCall& call,
                      std::chrono::milliseconds timeout, Where where) {
  struct Host {
    char name[MPI_MAX_PROCESSOR_NAME];
    char token[64];
    int port, group;
  };
  const auto n = static_cast<std::size_t>(members.world_size);
  const Tensor memory = zeros({static_cast<std::int64_t>(n * sizeof(Host))},
                              {.dtype = DType::uint8, .device = Device()}, where);
  call.use(memory);
  auto* const hosts = reinterpret_cast<Host*>(memory.raw_data());
  int length = 0;
  check(MPI_Get_processor_name(hosts[members.rank].name, &length));
  transport.all_gather(memory.raw_data(), std::vector<std::size_t>(n, sizeof(Host)), call);
  const bool is_one_host = std::all_of(hosts, hosts + n, [&](const Host& host) {
    return std::strcmp(host.name, hosts[0].name) == 0;
  });
  if (members.rank == 0) {
    const StoreAddress& address = serve_store(is_one_host, where);
    hosts[0].port = address.port;
    hosts[0].group = next_group();
    address.token.copy(hosts[0].token, sizeof hosts[0].token - 1);
  }
  transport.broadcast(memory.raw_data(), sizeof(Host), 0, call);
  return {Store({is_one_host ? "127.0.0.1" : hosts[0].name, hosts[0].port, hosts[0].token}, timeout,
                where),
          hosts[0].group};
}

std::chrono::milliseconds limit_of(const TransportOptions& options) {
  return whole_milliseconds(std::chrono::duration<double>(options.join_timeout).count());
}

MpiGroup join(const Members& members, const TransportOptions& options, Where where) {
  static const std::atomic<bool> broken = false;  // nothing breaks before there is a group
  const int rank = members.rank, world_size = members.world_size;
  check_options(world_size, options, where);
  longest_deadline_s =
      std::max(longest_deadline_s.load(), std::chrono::duration<double>(options.deadline).count());
  std::unique_ptr<MpiTransport> transport;
  std::optional<GroupStore> opened;
  try {
    TransportCall call(Clock::now() + options.join_timeout, broken, {});
    if (world_size > 1) {
      transport = copy_of(members.comm, call);
      opened = open_store(*transport, members, call, options.join_timeout, where);
    } else {
      opened = {Store(serve_store(true, where), options.join_timeout, where), next_group()};
    }
  } catch (const TransportError& error) {
    throw CollectiveError(concat("mpi group: ", world_size, " ranks must come within ",
                                 std::chrono::duration<double>(options.join_timeout).count(),
                                 " s; got ", error.what()),
                          where);
  }
  const std::string name = concat("mpi", opened->group);
  meet(opened->store, name, rank, world_size, options, where);
  auto comm = make_transport_communicator(opened->store, name, rank, world_size,
                                          std::move(transport), options, where);
  comm->barrier(where);  // no rank goes on before all have found each other
  return {std::move(comm), std::move(opened->store)};
}

}  // namespace

std::unique_ptr<Communicator> join_mpi_group(const TransportOptions& options, Where where) {
  return join_mpi_group_with_store(options, where).comm;
}

MpiGroup join_mpi_group_with_store(const TransportOptions& options, Where where) {
  return join(members_of_job(limit_of(options), where), options, where);
}

MpiGroup join_mpi_communicator(int handle, const TransportOptions& options, Where where) {
  return join(members_of(handle, limit_of(options), where), options, where);
}

}  // namespace ringrad
