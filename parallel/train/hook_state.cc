#include "parallel/train/hook_state.h"

namespace ringrad {
namespace {

// A std::function gives back the object that it was made of to those who know its type.
struct StatefulHook {
  Work operator()(const GradientBucket& bucket, CommunicationLane& lane) const {
    return reduce(bucket, lane);
  }
  std::shared_ptr<HookState> state;
  CommunicationHook reduce;
};

}  // namespace

CommunicationHook hook_with_state(std::shared_ptr<HookState> state, CommunicationHook reduce) {
  return StatefulHook{std::move(state), std::move(reduce)};
}

std::shared_ptr<HookState> state_of(const CommunicationHook& hook) {
  const auto* const stateful = hook.target<StatefulHook>();
  return stateful ? stateful->state : nullptr;
}

}  // namespace ringrad
