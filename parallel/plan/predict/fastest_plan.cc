#include "ringrad/parallel/plan/predict/fastest_plan.h"

#include <bit>
#include <utility>

#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

// Two ranks suffice to see whether an algorithm takes segments.
bool takes_segments(Collective collective, const std::string& algorithm) {
  return make_plan(collective, algorithm, 2, {.segments = 2}) !=
         make_plan(collective, algorithm, 2, {.segments = 1});
}

}  // namespace

std::vector<PlanCandidate> plan_candidates(Collective collective, const PlanOptions& options,
                                           int max_segments) {
  std::vector<PlanCandidate> candidates;
  for (const std::string& algorithm : algorithm_names(collective)) {
    const int most = takes_segments(collective, algorithm) ? max_segments : 1;
    for (int segments = 1; segments <= most; segments *= 2) {
      candidates.push_back({algorithm, options});
      candidates.back().options.segments = segments;
    }
  }
  return candidates;
}

// More than three, with which canonical and tree order are one.
int few_ranks(int world_size) {
  constexpr int kFew = 8;
  if (world_size <= kFew) return world_size;
  return std::has_single_bit(static_cast<unsigned>(world_size)) ? kFew : kFew - 1;
}

std::vector<PlanCandidate> in_sum_order(std::vector<PlanCandidate> candidates,
                                        Collective collective, int world_size, SumOrder order) {
  std::erase_if(candidates, [&](const PlanCandidate& candidate) {
    const CollectivePlan plan =
        make_plan(collective, candidate.algorithm, world_size, candidate.options);
    return !has_sum_order(plan, order);
  });
  return candidates;
}

CollectivePlan fastest_plan(Collective collective, int world_size, std::int64_t bytes,
                            const CostModel& model, std::span<const PlanCandidate> candidates) {
  require(!candidates.empty(), "fastest_plan: there must be a candidate; got none");
  CollectivePlan fastest;
  double least = 0;
  bool is_first = true;
  for (const PlanCandidate& candidate : candidates) {
    CollectivePlan plan = make_plan(collective, candidate.algorithm, world_size, candidate.options);
    const double seconds = predicted_seconds(plan, bytes, model);
    if (is_first || seconds < least) {
      fastest = std::move(plan);
      least = seconds;
    }
    is_first = false;
  }
  return fastest;
}

}  // namespace ringrad
