// The kernel behind dropout.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

/// As cpu::apply_mask, for tensors on a GPU.
void apply_mask(const Tensor& x, const Tensor& mask, double scale, const Tensor& y, Where where);

}  // namespace ringrad::kernels::cuda
