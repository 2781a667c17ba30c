// A complete batch norm, in the form that the vendor's library takes. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Forward:   y = max((x - mean) * rstd * weight + bias + residual, 0); also gives mean, rstd, mask
/// Backward:  grad_* from grad_y and x, weight, mean, rstd, mask
///
/// Images are (B, C, H, W), channels_last and of one dtype; all other tensors are (C), contiguous,
/// float32. residual may be undefined; then grad_residual may be undefined as well. mask is defined
/// with ReLU: one bit per value, 1 where y > 0, in the library's own order.
struct BatchNormProblem {
  Tensor x{}, weight{}, bias{}, residual{};
  double eps = 0;
  Tensor y{}, mean{}, rstd{}, mask{};
  Tensor grad_y{}, grad_x{}, grad_weight{}, grad_bias{}, grad_residual{};
};

}  // namespace ringrad::kernels
