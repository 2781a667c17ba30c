// Our side of the comparison: all-reduce between ranks that are threads of one process, by the
// algorithm that is the default and by each of those that there are.

#include <span>

#include "benchmarks/cases.h"
#include "benchmarks/collective_timing.h"
#include "parallel/comm/ranks.h"
#include "parallel/plan/direct_plan.h"
#include "parallel/plan/ring_plan.h"

namespace ringrad::bench {
namespace {

Case all_reduce_case(std::size_t bytes, const std::string& variant, const GroupOptions& options) {
  const std::string name = all_reduce_name(bytes) + variant;
  const Shape shape{static_cast<std::int64_t>(bytes / sizeof(float))};
  return {name, [=](const Report& report) {
            // In a group of its own, so that a wrong sum on one rank leaves nobody at a barrier.
            const auto check = [&](Communicator& comm) {
              const Tensor x = empty(shape);
              const std::span<float> values(x.data<float>(), bytes / sizeof(float));
              fill_for_sum(values, comm.rank());
              comm.all_reduce(x);
              check_sum(values, comm.world_size());
            };
            run_ranks(report.threads(), check, options);

            RankBoard board;
            const auto measure = [&](Communicator& comm) {
              const Tensor x = zeros(shape);  // so that repeated sums stay finite
              const auto timing = time_collective(board, comm.rank(), comm.world_size(),
                                                  [&] { comm.all_reduce(x); });
              if (timing) report.time(name, *timing, bench::bytes(static_cast<double>(bytes)));
            };
            run_ranks(report.threads(), measure, options);
          }};
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad;
  using namespace ringrad::bench;
  std::vector<Case> cases;
  for (std::size_t bytes : all_reduce_sizes()) {
    cases.push_back(all_reduce_case(bytes, "", {}));
    cases.push_back(all_reduce_case(bytes, "@ring", {.all_reduce = "ring"}));
    cases.push_back(all_reduce_case(bytes, "@two_shot", {.all_reduce = "two_shot"}));
    cases.push_back(all_reduce_case(bytes, "@one_shot", {.all_reduce = "one_shot"}));
  }
  return run_cases(argc, argv, "ringrad", cases);
}
