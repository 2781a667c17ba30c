// The last step of clipping, once the norm of all gradients (of one device or of all ranks) is
// known.

#pragma once

#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"

namespace ringrad::nn {

/// Throws ValueError unless max_norm > 0; infinity is allowed, and clips nothing.
void check_max_norm(double max_norm, Where where);

/// Multiplies the gradients by max_norm / norm if that is less than 1. Returns the norm, which is
/// infinite if no double can hold it.
///
/// Throws: ValueError if a gradient is not finite, which `norm` tells; nothing is scaled then
/// REQUIRES: check_max_norm(max_norm)
double clip_to_norm(const std::vector<Tensor>& gradients, const kernels::Norm& norm,
                    double max_norm, Where where);

}  // namespace ringrad::nn
