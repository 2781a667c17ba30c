// The kernels behind pointwise_loss.h. Private to kernels/.

#pragma once

#include "ringrad/kernels/loss/pointwise_loss.h"

namespace ringrad::kernels::cuda {

/// As their namesakes in cpu, for tensors on a GPU.
void pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                    const Tensor& parameter, Reduction reduction, const Tensor& result,
                    Where where);
void pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                             const Tensor& targets, const Tensor& parameter, Reduction reduction,
                             const Tensor& grad_x, Where where);

}  // namespace ringrad::kernels::cuda
