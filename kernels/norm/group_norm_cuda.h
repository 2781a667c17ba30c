// The kernels behind group_norm.h. Private to group_norm.cc.

#pragma once

#include "ringrad/kernels/norm/group_norm.h"

namespace ringrad::kernels::cuda {

// REQUIRES: x, grad_output and the results are contiguous and not empty; x and grad_output have one
//           floating dtype; mean and rstd are contiguous and have the dtype of the statistics
void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                const NormResult& result, Where where);
void group_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const NormGradients& result,
                         Where where);

}  // namespace ringrad::kernels::cuda
