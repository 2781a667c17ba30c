#include "ringrad/kernels/loss/pointwise_loss.h"

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/dense.h"
#include "ringrad/kernels/loss/pointwise_loss_ops.h"

namespace ringrad::kernels {
namespace {

const char* name(PointwiseLoss loss) {
  return dispatch_loss(loss, [](auto formula) { return formula.kName; });
}

void check_arguments(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                     const Tensor& parameter, Where where) {
  const char* operation = name(loss);
  check_floating(operation, x, where);
  check_same_dtype(operation, x, targets, where);
  check_same_device(operation, x, targets, where);
  RINGRAD_CHECK(x.shape() == targets.shape(), ShapeError, where, operation,
                ": x and targets must have one shape; got ", x.shape(), " and ", targets.shape());
  if (!parameter.defined()) return;
  RINGRAD_ASSERT(loss == PointwiseLoss::bce_with_logits || loss == PointwiseLoss::huber ||
                 loss == PointwiseLoss::smooth_l1);
  if (parameter.dtype() != math_dtype(x.dtype())) check_same_dtype(operation, x, parameter, where);
  check_same_device(operation, x, parameter, where);
  RINGRAD_CHECK(broadcasts_to(parameter.shape(), x.shape()), ShapeError, where, operation,
                ": positive_weight must broadcast to x; got ", parameter.shape(), " and ",
                x.shape());
}

Tensor expanded(const Tensor& parameter, const Tensor& x, Where where) {
  if (!parameter.defined()) return parameter;
  const Tensor wide = cast(parameter, math_dtype(x.dtype()), where);
  return in_order_of(view::expand(wide, x.shape(), where), x, where);
}

}  // namespace

Tensor pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                      const Tensor& parameter, Reduction reduction, Where where) {
  check_arguments(loss, x, targets, parameter, where);
  const Tensor flat_x = dense(x, where);
  const Tensor result = reduction == Reduction::none
                            ? empty_like(flat_x, where)
                            : empty({}, {.dtype = x.dtype(), .device = x.device()}, where);
  const Tensor flat_targets = in_order_of(targets, flat_x, where);
  const Tensor weight = expanded(parameter, flat_x, where);
  if (x.device().is_cuda())
    cuda::pointwise_loss(loss, flat_x, flat_targets, weight, reduction, result, where);
  else
    cpu::pointwise_loss(loss, flat_x, flat_targets, weight, reduction, result);
  return result;
}

Tensor pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                               const Tensor& targets, const Tensor& parameter, Reduction reduction,
                               Where where) {
  check_arguments(loss, x, targets, parameter, where);
  check_same_dtype(name(loss), x, grad_output, where);
  const bool reduced = reduction != Reduction::none;
  RINGRAD_CHECK(grad_output.shape() == (reduced ? Shape{} : x.shape()), ShapeError, where,
                name(loss), ": grad_output must have the shape of the loss; got ",
                grad_output.shape(), " for x ", x.shape());
  const Tensor flat_x = dense(x, where);
  const Tensor grad_x = empty_like(flat_x, where);
  const Tensor grad = reduced ? grad_output : in_order_of(grad_output, flat_x, where);
  const Tensor flat_targets = in_order_of(targets, flat_x, where);
  const Tensor weight = expanded(parameter, flat_x, where);
  if (x.device().is_cuda())
    cuda::pointwise_loss_backward(loss, grad, flat_x, flat_targets, weight, reduction, grad_x,
                                  where);
  else
    cpu::pointwise_loss_backward(loss, grad, flat_x, flat_targets, weight, reduction, grad_x);
  return grad_x;
}

}  // namespace ringrad::kernels
