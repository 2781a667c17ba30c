#include "ringrad/parallel/train/data_parallel/hook_state.h"

namespace ringrad {
namespace {

// std::function::target returns the object that a function was made of to code that knows its type.
struct StatefulHook {
  Work operator()(const GradientBucket& bucket, CommunicationStream& stream) const {
    return reduce(bucket, stream);
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
