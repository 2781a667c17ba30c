// The loops behind argmax.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cpu {

/// x seen as (outer, extent, inner), the result as (outer, inner).
struct Positions {
  std::int64_t outer = 1, extent = 1, inner = 1;
};

/// REQUIRES: x contiguous; positions.extent > 0
void argmax(const Tensor& x, const Positions& positions, std::int64_t* result);
void argmin(const Tensor& x, const Positions& positions, std::int64_t* result);

}  // namespace ringrad::kernels::cpu
