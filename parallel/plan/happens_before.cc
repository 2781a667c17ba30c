#include "parallel/plan/happens_before.h"

#include <algorithm>

namespace ringrad {

HappensBefore::HappensBefore(const CollectivePlan& plan, const Replay& run)
    : position_(plan.steps.size(), 0), clock_(plan.steps.size()) {
  for (const Step& step : plan.steps) rank_.push_back(step.rank);
  std::vector<std::vector<int>> known(plan.world_size, std::vector<int>(plan.world_size, 0));
  for (int index : run.order) {
    const Step& step = plan.steps[index];
    std::vector<int>& mine = known[step.rank];
    if (is_receive(step.op))
      for (int send : run.partners[index]) {
        if (send < 0) continue;
        for (int r = 0; r < plan.world_size; ++r) mine[r] = std::max(mine[r], clock_[send][r]);
        // The send itself has run too; its own clock tells of what came before it.
        mine[rank_[send]] = std::max(mine[rank_[send]], position_[send]);
      }
    clock_[index] = mine;
    position_[index] = ++mine[step.rank];
  }
}

}  // namespace ringrad
