// Losses that compare a prediction with its target element by element.
//
//     mse                (x - t)^2
//     l1                 |x - t|
//     bce_with_logits    (1 - t) x + (1 + (w - 1) t) log(1 + exp(-x))
//
// where w is the weight of the positive class (default 1). The last formula is
// -(w t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))) without its overflows.
//
// One pass computes the losses of all elements and their sum or mean, without intermediate tensors;
// a second pass computes the gradient. Sums run over fixed blocks whose results are added in order,
// so they do not depend on the number of threads.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loss/loss_reduction.h"

namespace ringrad::kernels {

enum class PointwiseLoss : std::uint8_t { mse, l1, bce_with_logits };

/// positive_weight is for bce_with_logits; undefined means 1.
///
/// Shapes:  x and targets equal, positive_weight broadcasts to them
///          ->  () or, without a reduction, like x
/// DTypes:  every floating dtype, the same for all
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                      const Tensor& positive_weight, Reduction reduction,
                      Where where = Where::current());

/// d(loss)/dx * grad_output, divided by the number of elements for a mean. The derivative of the
/// absolute value at 0 is 0.
///
/// Shapes:  grad_output like the loss  ->  like x
Tensor pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                               const Tensor& targets, const Tensor& positive_weight,
                               Reduction reduction, Where where = Where::current());

namespace cpu {

// REQUIRES: all tensors but a reduced loss and its gradient are dense and have equal strides;
//           positive_weight, if defined, is like x
void pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                    const Tensor& positive_weight, Reduction reduction, const Tensor& result);
void pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                             const Tensor& targets, const Tensor& positive_weight,
                             Reduction reduction, const Tensor& grad_x);

}  // namespace cpu
}  // namespace ringrad::kernels
