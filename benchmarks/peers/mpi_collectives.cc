#include "ringrad/benchmarks/peers/mpi_collectives.h"

#include <mpi.h>

namespace ringrad::bench {
namespace {

// MPI_IN_PLACE as input marks a call in place; where only the root has a result, only the root
// passes it.
class OpenMpiRank final : public RankEnd {
 public:
  explicit OpenMpiRank(int rank) : rank_(rank) {}

  bool has(const CollectiveCase& one, bool in_place) const override {
    switch (one.routine) {
      case Routine::all_reduce:
      case Routine::all_gather:
      case Routine::reduce:
        return true;
      case Routine::broadcast:
        return in_place;
      case Routine::reduce_scatter:
      case Routine::all_to_all:
        return !in_place;
      case Routine::send_recv:
        break;
    }
    return !in_place && one.ranks > 1;
  }

  std::function<void()> prepare(const CollectiveCase& one, const Tensor& output,
                                const Tensor& input) override {
    float* out = output.data<float>();
    float* in = input.data<float>();
    const bool in_place =
        input.numel() < output.numel() ? out <= in && in < out + output.numel() : in == out;
    const void* from = in_place ? MPI_IN_PLACE : in;
    const int count = static_cast<int>(one.count), root = one.root;
    const MPI_Comm comm = MPI_COMM_WORLD;
    switch (one.routine) {
      case Routine::all_reduce:
        return [=] { MPI_Allreduce(from, out, count, MPI_FLOAT, MPI_SUM, comm); };
      case Routine::reduce_scatter:
        return [=] { MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, comm); };
      case Routine::all_gather:
        return [=] { MPI_Allgather(from, count, MPI_FLOAT, out, count, MPI_FLOAT, comm); };
      case Routine::broadcast:
        return [=] { MPI_Bcast(out, count, MPI_FLOAT, root, comm); };
      case Routine::reduce: {
        const void* sent = in_place && rank_ != root ? out : from;
        float* received = rank_ == root ? out : nullptr;
        return [=] { MPI_Reduce(sent, received, count, MPI_FLOAT, MPI_SUM, root, comm); };
      }
      case Routine::all_to_all:
        return [=] { MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, comm); };
      case Routine::send_recv:
        break;
    }
    const int next = (rank_ + 1) % one.ranks, before = (rank_ + one.ranks - 1) % one.ranks;
    return [=] {
      MPI_Sendrecv(in, count, MPI_FLOAT, next, 0, out, count, MPI_FLOAT, before, 0, comm,
                   MPI_STATUS_IGNORE);
    };
  }

 private:
  int rank_;
};

struct Session {
  Session() { MPI_Init(nullptr, nullptr); }
  ~Session() { MPI_Finalize(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

}  // namespace

void run_openmpi(SharedCase& shared) {
  const Session session;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  OpenMpiRank end(rank);
  measure(shared, rank, end);
}

}  // namespace ringrad::bench
