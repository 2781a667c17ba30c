// What a communication hook remembers between passes, so that a checkpoint can hold it
// (sharded_checkpoint.h).
//
//     CommunicationHook hook = top_k_compression({.ratio = 0.01});
//     model.set_communication_hook(hook);
//     checkpoint.add("hook", hook);                  copies of a hook share what it remembers

#pragma once

#include <memory>

#include "ringrad/nn/state_dict.h"
#include "ringrad/parallel/train/data_parallel/reducer.h"

namespace ringrad {

class HookState {
 public:
  virtual ~HookState() = default;

  /// The state by name; call it between passes. Names that begin with "left" are this rank's own
  /// errors, which are added to its later gradients; all others are the same on all ranks. A hook
  /// that has reduced nothing yet may have no state.
  virtual nn::StateDict state() const = 0;

  /// Throws: ValueError unless `state` has the form of this hook's state
  virtual void check(const nn::StateDict& state, Where where) const = 0;

  /// Replaces the state by copies of these tensors. Throws as check(), before anything changes.
  virtual void load(const nn::StateDict& state, Where where) = 0;
};

/// The hook that reduces by `reduce` and remembers `state`.
CommunicationHook hook_with_state(std::shared_ptr<HookState> state, CommunicationHook reduce);

/// What the hook remembers; null for user-defined hooks and those that remember nothing.
std::shared_ptr<HookState> state_of(const CommunicationHook& hook);

}  // namespace ringrad
