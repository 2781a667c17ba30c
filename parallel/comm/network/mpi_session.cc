#include "ringrad/parallel/comm/network/mpi_session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "ringrad/parallel/comm/common/no_broken_pipe.h"
#include "ringrad/parallel/comm/network/mpi_launcher.h"
#include "ringrad/parallel/comm/network/mpi_segments.h"
#include "ringrad/parallel/comm/network/mpi_watchdog.h"

namespace ringrad::mpi {
namespace {

using Clock = TransportCall::Clock;

// Rounds of a wait: as between threads, first it asks, then it lets others run, then it sleeps.
constexpr int kSpins = 200;
constexpr auto kYieldTime = std::chrono::milliseconds(1);
constexpr auto kSleep = std::chrono::microseconds(50);

std::atomic<bool> failed = false;
std::atomic<double> longest_deadline_s = 0;  // of the groups so far
std::atomic<bool> all_threads = true;

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

class Session {
 public:
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  explicit Session(std::chrono::milliseconds limit) {
    const NoBrokenPipe guard;  // for the threads that it starts
    int level = 0;
    if (is_ours_) {
      end_with_launcher(remove_job_segments);
      const MpiWatchdog watchdog("MPI_Init", limit, remove_job_segments);
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
      segment_.emplace();
    }
    MPI_Query_thread(&level);
    all_threads = level == MPI_THREAD_MULTIPLE;
    if (is_ours_) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    own_server();  // made first, it ends after this
  }

  // MPI_Finalize waits for all ranks. After a failure some may never come: this one waits no longer
  // than in a call, and leaves it to mpirun to end the job.
  ~Session() {
    const NoBrokenPipe guard;
    const std::chrono::milliseconds limit =
        whole_milliseconds(std::chrono::duration<double>(longest_deadline_s));
    if (!is_ours_ || is_finalized()) return;
    MPI_Request all_end = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &all_end) != MPI_SUCCESS) return;
    try {
      const auto begin = Clock::now();
      if (is_done_in_time(all_end, [&] {
            const std::chrono::duration<double> waited = Clock::now() - begin;
            return !failed || waited.count() < longest_deadline_s;
          })) {
        const MpiWatchdog watchdog("MPI_Finalize", limit, remove_job_segments);
        if (segment_) segment_->restore_name();
        MPI_Finalize();
      }
    } catch (const TransportError&) {  // then MPI is not finalised
    }
  }

  const bool is_ours_ = !is_initialized();
  std::optional<NamelessSegment> segment_;
};

}  // namespace

void check(int status) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw TransportError(text.data());
}

void finish(MPI_Request& request, const TransportCall& call) {
  is_done_in_time(request, [&] {
    call.check();
    return true;
  });
}

bool is_initialized() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

bool is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

void begin_session(std::chrono::milliseconds limit) { static const Session session(limit); }

void check_usable(Where where) {
  RINGRAD_CHECK(!is_finalized(), CollectiveError, where,
                "mpi group: calls must come before the program's MPI_Finalize(); got one after it");
  if (all_threads) return;
  int is_main = 0;
  MPI_Is_thread_main(&is_main);
  RINGRAD_CHECK(is_main != 0, CollectiveError, where,
                "mpi group: without MPI_THREAD_MULTIPLE, which MPI_Init_thread() can ask for, the "
                "thread that initialised MPI must make all calls; got another thread");
}

bool serves_all_threads() { return all_threads; }

void note_failure() { failed = true; }

bool has_failed() { return failed; }

void note_deadline(std::chrono::duration<double> deadline) {
  longest_deadline_s = std::max(longest_deadline_s.load(), deadline.count());
}

std::unique_ptr<StoreServer>& own_server() {
  static std::unique_ptr<StoreServer> server;
  return server;
}

std::chrono::milliseconds whole_milliseconds(std::chrono::duration<double> time) {
  constexpr double kYear_s = 365.0 * 24 * 3600;
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(1000 * std::min(time.count(), kYear_s)));
}

}  // namespace ringrad::mpi
