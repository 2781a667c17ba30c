// The kernels behind rms_norm.h. Private to rms_norm.cc.

#pragma once

#include "ringrad/kernels/norm/rms_norm.h"

namespace ringrad::kernels::cuda {

// REQUIRES: x, grad_output and the results are contiguous and not empty; x and grad_output have one
//           floating dtype; rstd is contiguous and has the dtype of the statistics
void rms_norm(const Tensor& x, const Tensor& weight, double eps, const RMSNormResult& result,
              Where where);
void rms_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                       const Tensor& rstd, const RMSNormGradients& result, Where where);

}  // namespace ringrad::kernels::cuda
