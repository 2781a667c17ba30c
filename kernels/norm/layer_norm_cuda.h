// The kernels behind layer_norm.h. Private to layer_norm.cc.

#pragma once

#include "ringrad/kernels/norm/layer_norm.h"

namespace ringrad::kernels::cuda {

// REQUIRES: x, grad_output and the results are contiguous and not empty; x and grad_output have one
//           floating dtype; mean and rstd are contiguous and have the dtype of the statistics
void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                const LayerNormResult& result, Where where);
void layer_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const LayerNormGradients& result,
                         Where where);

}  // namespace ringrad::kernels::cuda
