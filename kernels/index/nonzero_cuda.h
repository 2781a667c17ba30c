// The kernel behind nonzero.h. Private to kernels/index/nonzero*.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

/// Row ends[i] - 1 of `found` = the coordinates in `shape` of element i, for all i with flags[i].
/// REQUIRES: flags is bool, ends its running sum; all are contiguous
void write_nonzero(const Tensor& flags, const Tensor& ends, const Shape& shape, const Tensor& found,
                   Where where);

}  // namespace ringrad::kernels::cuda
