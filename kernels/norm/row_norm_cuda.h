// The kernels behind row_norm.h. Private to row_norm.cc.

#pragma once

#include "ringrad/kernels/norm/norm_result.h"

namespace ringrad::kernels::cuda {

// kCentred: layer norm; else RMS norm, whose means and biases are undefined.
//
// REQUIRES: x, grad_output and the results are contiguous and not empty; x and grad_output have one
//           floating dtype; mean and rstd are contiguous and have the dtype of the statistics
template <bool kCentred>
void row_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
              const NormResult& result, Where where);
template <bool kCentred>
void row_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                       const NormResult& statistics, const NormGradients& result, Where where);

}  // namespace ringrad::kernels::cuda
