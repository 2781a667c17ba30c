// Optimizers count the steps of each parameter ("3.steps"). Earlier versions counted those of the optimizer alone ("step"):
// each parameter had taken all of them.

#pragma once

#include "nn/state_dict.h"

namespace ringrad::nn {

/// The given state. Where an optimizer's part of it counts no parameter's steps, each of those that `own` has gets
/// the optimizer's number; names may have a prefix, as in a checkpoint ("optimizer.3.steps").
StateDict with_step_counts(StateDict given, const StateDict& own);

}  // namespace ringrad::nn
