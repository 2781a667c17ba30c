// The kernel behind searchsorted.h. Private to kernels/order/searchsorted*.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

/// Each line of `sorted` is searched for `per_line` neighbouring values.
/// REQUIRES: all are contiguous; values is not empty
void searchsorted(const Tensor& sorted, const Tensor& values, std::int64_t per_line, bool right,
                  const Tensor& places, Where where);

}  // namespace ringrad::kernels::cuda
