// The kernels behind batch_norm.h. Private to kernels/norm.

#pragma once

#include "ringrad/kernels/norm/batch_norm.h"

namespace ringrad::kernels::cuda {

// REQUIRES: tensors of x's shape are not empty and have equal strides: contiguous or channels_last.
//           Tensors of (C) have been checked. Results of (C) are contiguous and have the dtype of
//           the statistics.

void batch_norm_moments(const Tensor& x, const Moments& result, Where where);
void batch_norm_apply(const BatchNormSaved& saved, const Tensor& y, Where where);
// Without ReLU, backward passes get no residual; with a residual, they write both gradients.
void batch_norm_backward_sums(const Tensor& grad_output, const BatchNormSaved& saved,
                              const BatchNormSums& result, Where where);
void batch_norm_backward_apply(const Tensor& grad_output, const BatchNormSaved& saved,
                               const BatchNormSums& sums, double rows,
                               const BatchNormGradients& result, Where where);

/// rstd = 1 / sqrt(var + eps); both of any floating dtype, rstd contiguous
void batch_norm_rstd(const Tensor& var, double eps, const Tensor& rstd, Where where);
/// var = max(1 / rstd^2 - eps, 0); likewise
void batch_norm_var(const Tensor& rstd, double eps, const Tensor& var, Where where);

/// running += momentum * (moment * correction - running)
void batch_norm_update_running(const Tensor& moment, double correction, double momentum,
                               const Tensor& running, Where where);

}  // namespace ringrad::kernels::cuda
