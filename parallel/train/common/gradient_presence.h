// Which parameters have a gradient on any rank.
//
// A parameter that some ranks' losses reach has a gradient on every rank: the average, to which the
// other ranks contribute zeros. A parameter that no rank's loss reaches has no gradient, and
// optimizers leave it alone (nn/optimizer/optimizer.h). Ranks that average gradients therefore also
// tell each other which gradients they have.

#pragma once

#include <vector>

#include "ringrad/nn/optimizer/arena.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// 1 for each parameter that has a gradient on this rank, else 0.
///
/// Shapes:  (P), the arenas' parameters in order; uint8, on the CPU
Tensor gradient_presence(const std::vector<nn::ParameterArena>& arenas);

/// Makes each element 1 if it is 1 on any rank. All ranks call it.
void reduce_presence(const Tensor& presence, Communicator& comm, Where where);

/// Makes the arenas' contents the gradient of each parameter that is present and not frozen.
/// REQUIRES: the arenas are settled
void adopt_gradients(const std::vector<nn::ParameterArena>& arenas, const Tensor& presence);

}  // namespace ringrad
