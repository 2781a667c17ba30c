// Bound: what copying the bytes of an all-reduce costs. OMP_NUM_THREADS threads, each with buffers
// of its own, copy `bytes` bytes at the same time; an all-reduce cannot do with much less, since
// every rank reads as much as it holds and writes as much.

#include <cstring>
#include <thread>

#include "benchmarks/cases.h"
#include "benchmarks/collective_timing.h"

namespace ringrad::bench {
namespace {

Case copy_case(std::size_t bytes) {
  const std::string name = all_reduce_name(bytes);
  return {name, [=](const Report& report) {
            RankBoard board;
            const auto run_rank = [&](int rank) {
              const std::vector<float> from(bytes / sizeof(float), 1.0f);
              std::vector<float> to(from.size());
              const auto timing = time_collective(board, rank, report.threads(), [&] {
                std::memcpy(to.data(), from.data(), bytes);
                asm volatile("" : : "r"(to.data()) : "memory");  // every copy is made
              });
              if (timing) report.time(name, *timing, bench::bytes(static_cast<double>(bytes)));
            };
            std::vector<std::thread> others;
            for (int rank = 1; rank < report.threads(); ++rank) others.emplace_back(run_rank, rank);
            run_rank(0);
            for (std::thread& thread : others) thread.join();
          }};
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  std::vector<Case> cases;
  for (std::size_t bytes : all_reduce_sizes()) cases.push_back(copy_case(bytes));
  return run_cases(argc, argv, "memcpy", cases);
}
