#include "ringrad/parallel/comm/network/mpi_transport.h"

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/network/mpi_session.h"

namespace ringrad {
namespace {

constexpr int kTags = 1 << 15;  // that every MPI has

// A message's tag; messages of one tag arrive in order.
int tag_of(Channel channel) { return static_cast<int>(channel); }

// MPI may use the memory until a request is done: forever, if no thread waits for the request.
void keep(std::vector<Tensor> memory) {
  static auto* const kept = new std::vector<std::vector<Tensor>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
  mpi::note_failure();
}

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(MPI_Request request, std::vector<Tensor> memory)
      : request_(request), memory_(std::move(memory)) {}
  ~MpiTransfer() override {
    if (mpi::is_finalized()) return;  // which has completed it
    int done = 0;
    if (MPI_Test(&request_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0)
      keep(std::move(memory_));
  }
  void wait(TransportCall& call) override {
    if (!mpi::is_finalized()) mpi::finish(request_, call);
  }

 private:
  MPI_Request request_;
  std::vector<Tensor> memory_;
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

  std::unique_ptr<Transfer> send(const std::byte* data, std::size_t bytes, int to, Channel channel,
                                 std::vector<Tensor> memory) override {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::check(
        MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag_of(channel), comm_, &request));
    return std::make_unique<MpiTransfer>(request, std::move(memory));
  }

  std::unique_ptr<Transfer> recv(std::byte* data, std::size_t bytes, int from, Channel channel,
                                 std::vector<Tensor> memory) override {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::check(
        MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag_of(channel), comm_, &request));
    return std::make_unique<MpiTransfer>(request, std::move(memory));
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
