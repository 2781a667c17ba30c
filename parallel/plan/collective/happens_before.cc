#include "ringrad/parallel/plan/collective/happens_before.h"

#include <algorithm>
#include <utility>

namespace ringrad {

HappensBefore::HappensBefore(const CollectivePlan& plan, const Replay& run)
    : plan_(plan),
      run_(run),
      nothing_(std::make_shared<Clock>(plan.world_size, 0)),
      known_(plan.world_size, nothing_),
      sent_(plan.steps.size()) {
  std::vector<int> length(plan.world_size, 0);
  position_.reserve(plan.steps.size());
  for (const Step& step : plan.steps) position_.push_back(++length[step.rank]);
}

void HappensBefore::advance(int index) {
  const Step& step = plan_.steps[index];
  if (is_send(step.op)) sent_[index] = known_[step.rank];
  if (is_receive(step.op))
    for (int send : run_.partners[index])
      if (send >= 0) learn(step.rank, send);
  now_ = index;
}

// The send itself has run as well; its own clock covers only the steps before it.
void HappensBefore::learn(int rank, int send) {
  const std::shared_ptr<Clock> news = std::move(sent_[send]);
  std::shared_ptr<Clock>& own = known_[rank];
  if (own.use_count() > 1) own = std::make_shared<Clock>(*own);
  int* const mine = own->data();
  if (news != nothing_) {
    const int* const theirs = news->data();
    for (int r = 0; r < plan_.world_size; ++r) mine[r] = std::max(mine[r], theirs[r]);
  }
  int& of_sender = mine[plan_.steps[send].rank];
  of_sender = std::max(of_sender, position_[send]);
}

}  // namespace ringrad
