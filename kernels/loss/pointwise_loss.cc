#include "ringrad/kernels/loss/pointwise_loss.h"

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/dense.h"
#include "ringrad/kernels/loss/pointwise_loss_cuda.h"

namespace ringrad::kernels {
namespace {

const char* name(PointwiseLoss loss) {
  switch (loss) {
    case PointwiseLoss::mse:
      return "mse_loss";
    case PointwiseLoss::l1:
      return "l1_loss";
    case PointwiseLoss::bce_with_logits:
      break;
  }
  return "bce_with_logits";
}

void check_arguments(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                     const Tensor& positive_weight, Where where) {
  const char* operation = name(loss);
  check_floating(operation, x, where);
  check_same_dtype(operation, x, targets, where);
  check_same_device(operation, x, targets, where);
  RINGRAD_CHECK(x.shape() == targets.shape(), ShapeError, where, operation,
                ": x and targets must have one shape; got ", x.shape(), " and ", targets.shape());
  if (!positive_weight.defined()) return;
  RINGRAD_ASSERT(loss == PointwiseLoss::bce_with_logits);
  check_same_dtype(operation, x, positive_weight, where);
  check_same_device(operation, x, positive_weight, where);
  RINGRAD_CHECK(broadcasts_to(positive_weight.shape(), x.shape()), ShapeError, where, operation,
                ": positive_weight must broadcast to x; got ", positive_weight.shape(), " and ",
                x.shape());
}

Tensor expanded(const Tensor& positive_weight, const Tensor& x, Where where) {
  if (!positive_weight.defined()) return positive_weight;
  return in_order_of(view::expand(positive_weight, x.shape(), where), x, where);
}

}  // namespace

Tensor pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                      const Tensor& positive_weight, Reduction reduction, Where where) {
  check_arguments(loss, x, targets, positive_weight, where);
  const Tensor flat_x = dense(x, where);
  const Tensor result = reduction == Reduction::none
                            ? empty_like(flat_x, where)
                            : empty({}, {.dtype = x.dtype(), .device = x.device()}, where);
  const Tensor flat_targets = in_order_of(targets, flat_x, where);
  const Tensor weight = expanded(positive_weight, flat_x, where);
  if (x.device().is_cuda())
    cuda::pointwise_loss(loss, flat_x, flat_targets, weight, reduction, result, where);
  else
    cpu::pointwise_loss(loss, flat_x, flat_targets, weight, reduction, result);
  return result;
}

Tensor pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                               const Tensor& targets, const Tensor& positive_weight,
                               Reduction reduction, Where where) {
  check_arguments(loss, x, targets, positive_weight, where);
  check_same_dtype(name(loss), x, grad_output, where);
  const bool reduced = reduction != Reduction::none;
  RINGRAD_CHECK(grad_output.shape() == (reduced ? Shape{} : x.shape()), ShapeError, where,
                name(loss), ": grad_output must have the shape of the loss; got ",
                grad_output.shape(), " for x ", x.shape());
  const Tensor flat_x = dense(x, where);
  const Tensor grad_x = empty_like(flat_x, where);
  const Tensor grad = reduced ? grad_output : in_order_of(grad_output, flat_x, where);
  const Tensor flat_targets = in_order_of(targets, flat_x, where);
  const Tensor weight = expanded(positive_weight, flat_x, where);
  if (x.device().is_cuda())
    cuda::pointwise_loss_backward(loss, grad, flat_x, flat_targets, weight, reduction, grad_x,
                                  where);
  else
    cpu::pointwise_loss_backward(loss, grad, flat_x, flat_targets, weight, reduction, grad_x);
  return grad_x;
}

}  // namespace ringrad::kernels
