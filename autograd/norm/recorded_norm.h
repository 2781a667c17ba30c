// The gradients of normalizations as recorded operators: the statistics are functions of x again.
// 16-bit dtypes compute in float32, as in the kernels. Private to autograd/norm.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// x in the dtype of the arithmetic.
Tensor widened(const Tensor& x);

/// The dtype of a parameter's gradient. Parameters may be wider than x: bfloat16 activations
/// normalised by float32 weights.
DType dtype_or(const Tensor& parameter, const Tensor& x);

/// Lines along the last axis, normalised.
struct RecordedNorm {
  Tensor xhat, rstd;  ///< (..., C) and (..., 1)
  bool is_centred;    ///< RMS norm subtracts no mean

  RecordedNorm(const Tensor& lines, double eps, bool is_centred);

  /// rstd * (g - mean(g) - xhat * mean(g * xhat)), without mean(g) unless centred.
  Tensor gradient(const Tensor& g) const;
};

}  // namespace ringrad
