// Which parameters have a gradient, on all ranks together.
//
// A parameter that some ranks' losses reach has a gradient on every rank: the average, to which the other ranks
// contribute zeros. A parameter that no rank's loss reaches has none, and optimizers leave it alone
// (nn/optimizer.h). So ranks that average gradients also tell each other which ones they have.

#pragma once

#include <vector>

#include "nn/arena.h"
#include "parallel/comm/communicator.h"

namespace ringrad {

/// 1 for each parameter of which this rank has a gradient, else 0.
///
/// Shapes:  (P), the arenas' parameters in order; uint8, on the CPU
Tensor gradient_presence(const std::vector<nn::ParameterArena>& arenas);

/// Makes each element 1 if it is 1 on any rank. All ranks call it.
void reduce_presence(const Tensor& presence, Communicator& comm, Where where);

/// What lies in the arenas becomes the gradient of each parameter that is present and not frozen.
/// REQUIRES: the arenas are settled
void adopt_gradients(const std::vector<nn::ParameterArena>& arenas, const Tensor& presence);

}  // namespace ringrad
