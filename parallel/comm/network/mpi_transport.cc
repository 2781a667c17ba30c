#include "ringrad/parallel/comm/network/mpi_transport.h"

#include <cstddef>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/network/mpi_session.h"

namespace ringrad {
namespace {

constexpr int kTag = 0;         // messages of one group arrive in order
constexpr int kTags = 1 << 15;  // that every MPI has

// Memory that MPI may use until a request is done: forever, if no thread waits for the request.
struct Used {
  std::vector<Tensor> memory;
  std::vector<std::vector<int>> numbers;

  void keep() && {
    static auto* const kept = new std::vector<Used>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    kept->push_back(std::move(*this));
    mpi::note_failure();
  }
};

class MpiSending final : public Sending {
 public:
  MpiSending(MPI_Request request, const Tensor& memory) : request_(request), memory_(memory) {}
  ~MpiSending() override {
    if (mpi::is_finalized()) return;  // which has completed it
    int done = 0;
    if (MPI_Test(&request_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0)
      Used{{memory_}, {}}.keep();
  }
  void wait(TransportCall& call) override {
    if (!mpi::is_finalized()) mpi::finish(request_, call);
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
    if (!mpi::is_finalized() && !mpi::has_failed()) MPI_Comm_free(&comm_);
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
    mpi::check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kTag, comm_, &request));
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
      mpi::check(MPI_Comm_group(comm_, &all));
      mpi::check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some));
      const int tag = static_cast<int>(std::hash<std::string>()(name) % kTags);
      mpi::check(MPI_Comm_create_group(comm_, some, tag, &comm));
      MPI_Group_free(&some);
      MPI_Group_free(&all);
      return std::make_unique<MpiTransport>(comm);
    } catch (const TransportError& error) {
      throw CollectiveError(concat("split: MPI must make a group; got ", error.what()), where);
    }
  }
  void check_usable(Where where) const override { mpi::check_usable(where); }
  bool serves_all_threads() const override { return mpi::serves_all_threads(); }
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
    mpi::check(begin(numbers, &request));
    try {
      mpi::finish(request, call);
    } catch (const TransportError&) {
      Used{call.memory(), std::move(numbers)}.keep();
      throw;
    }
  }

  MPI_Comm comm_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, TransportCall& call) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  mpi::check(MPI_Comm_idup(comm, &copy, &request));
  mpi::finish(request, call);
  return std::make_unique<MpiTransport>(copy);
}

}  // namespace ringrad
