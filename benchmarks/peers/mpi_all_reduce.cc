// Peer: MPI_Allreduce between processes of one host, float32 sum in place.
// Start it under mpirun with OMP_NUM_THREADS equal to the number of ranks.

#include <mpi.h>

#include <new>

#include "benchmarks/cases.h"
#include "benchmarks/collective_timing.h"

namespace ringrad::bench {
namespace {

// One MPI session with a RankBoard that all ranks see; made by the first case that runs.
class Session {
 public:
  Session() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    void* memory = nullptr;
    const MPI_Aint bytes = rank == 0 ? sizeof(RankBoard) : 0;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window_);
    MPI_Aint size = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
    board = rank == 0 ? new (memory) RankBoard : static_cast<RankBoard*>(memory);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Session() {
    MPI_Win_free(&window_);
    MPI_Finalize();
  }

  int rank = 0;
  int ranks = 0;
  RankBoard* board = nullptr;

 private:
  MPI_Win window_{};
};

Case all_reduce_case(std::size_t bytes) {
  const std::string name = all_reduce_name(bytes);
  return {name, [=](const Report& report) {
            static const Session session;
            std::vector<float> buffer(bytes / sizeof(float));
            const auto call = [&] {
              MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_FLOAT,
                            MPI_SUM, MPI_COMM_WORLD);
            };
            fill_for_sum(buffer, session.rank);
            call();
            check_sum(buffer, session.ranks);
            const auto timing = time_collective(*session.board, session.rank, session.ranks, call);
            if (timing) report.time(name, *timing, bench::bytes(static_cast<double>(bytes)));
          }};
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  std::vector<Case> cases;
  for (std::size_t bytes : all_reduce_sizes()) cases.push_back(all_reduce_case(bytes));
  return run_cases(argc, argv, "mpi", cases);
}
