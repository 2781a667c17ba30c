// Optimizers count the steps of each parameter ("3.steps"). Earlier versions counted only the
// optimizer's steps ("step"), and every parameter had taken all of them.

#pragma once

#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

/// Returns the given state. If an optimizer's part of it has no step counts of parameters, each
/// count that `own` has gets the optimizer's number of steps. Names may have a prefix, as in a
/// checkpoint ("optimizer.3.steps").
StateDict with_step_counts(StateDict given, const StateDict& own);

}  // namespace ringrad::nn
