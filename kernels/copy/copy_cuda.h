// The kernels behind copy.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loop_nest.h"

namespace ringrad::kernels::cuda {

/// Operand 0 of the nest = operand 1, converted.
/// REQUIRES: no overlap; the nest holds an element; both are on `device`
void copy(Device device, const LoopNest<2>& nest, std::byte* dst, DType to, const std::byte* src,
          DType from, Where where);

}  // namespace ringrad::kernels::cuda
