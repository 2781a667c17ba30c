// Losses that compare a prediction with its target element by element.
//
//     mse                (x - t)^2
//     l1                 |x - t|
//     bce_with_logits    (1 - t) x + (1 + (w - 1) t) log(1 + exp(-x))
//     huber              (x - t)^2 / 2 where |x - t| <= w, else w (|x - t| - w / 2)
//     smooth_l1          the same, divided by w
//     kl_div             t (log t - x), which is -t x for t = 0
//     kl_div_log         exp(t) (t - x)
//
// For bce_with_logits w is the weight of the positive class, and its formula is
// -(w t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))) without its overflows. For huber and
// smooth_l1 w is the distance at which the parabola becomes a line.
//
// One pass computes the losses of all elements and their sum or mean, without intermediate tensors;
// a second pass computes the gradient. Sums run over fixed blocks whose results are added in order,
// so they do not depend on the number of threads.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loss/loss_reduction.h"

namespace ringrad::kernels {

enum class PointwiseLoss : std::uint8_t {
  mse,
  l1,
  bce_with_logits,
  huber,
  smooth_l1,
  kl_div,
  kl_div_log
};

/// `parameter` is w; undefined means 1.
///
/// Shapes:  x and targets equal, parameter broadcasts to them
///          ->  () or, without a reduction, like x
/// DTypes:  every floating dtype, the same for all; parameter may have the dtype of the arithmetic
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                      const Tensor& parameter, Reduction reduction, Where where = Where::current());

/// d(loss)/dx * grad_output, divided by the number of elements for a mean. The derivative of the
/// absolute value at 0 is 0.
///
/// Shapes:  grad_output like the loss  ->  like x
Tensor pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                               const Tensor& targets, const Tensor& parameter, Reduction reduction,
                               Where where = Where::current());

namespace cpu {

// REQUIRES: all tensors but a reduced loss and its gradient are dense and have equal strides;
//           parameter, if defined, is like x, but in the dtype of the arithmetic
void pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                    const Tensor& parameter, Reduction reduction, const Tensor& result);
void pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                             const Tensor& targets, const Tensor& parameter, Reduction reduction,
                             const Tensor& grad_x);

}  // namespace cpu

namespace cuda {

/// As their namesakes in cpu, for tensors on a GPU.
void pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                    const Tensor& parameter, Reduction reduction, const Tensor& result,
                    Where where);
void pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                             const Tensor& targets, const Tensor& parameter, Reduction reduction,
                             const Tensor& grad_x, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
