#include "ringrad/parallel/plan/collective/happens_before.h"

#include <algorithm>

namespace ringrad {

void HappensBefore::make_clocks() {
  position_.assign(plan_.steps.size(), 0);
  clock_.resize(plan_.steps.size());
  std::vector<std::vector<int>> known(plan_.world_size, std::vector<int>(plan_.world_size, 0));
  for (int index : run_.order) {
    const Step& step = plan_.steps[index];
    std::vector<int>& mine = known[step.rank];
    if (is_receive(step.op))
      for (int send : run_.partners[index]) {
        if (send < 0) continue;
        for (int r = 0; r < plan_.world_size; ++r) mine[r] = std::max(mine[r], clock_[send][r]);
        // The send itself has run as well; its own clock covers only the steps before it.
        int& of_sender = mine[plan_.steps[send].rank];
        of_sender = std::max(of_sender, position_[send]);
      }
    clock_[index] = mine;
    position_[index] = ++mine[step.rank];
  }
}

}  // namespace ringrad
