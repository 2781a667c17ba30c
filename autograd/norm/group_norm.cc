#include "ringrad/autograd/norm/group_norm.h"

#include <algorithm>
#include <array>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/norm/recorded_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/norm/group_norm.h"

namespace ringrad {
namespace {

void backward_recorded(BackwardContext& context, const Tensor& x, std::int64_t groups,
                       const Tensor& weight, const std::array<DType, 3>& dtypes, double eps) {
  const Tensor grad = widened(context.grad_output());
  const Shape& shape = x.shape();
  const Shape grouped{shape[0], groups, x.numel() / (shape[0] * groups)};
  Shape per_channel = Shape::filled(x.dims(), 1), others;  // others: all axes but the channels
  per_channel[1] = shape[1];
  for (int axis = 0; axis < x.dims(); ++axis)
    if (axis != 1) others.push_back(axis);
  const RecordedNorm norm(reshape(widened(x), grouped), eps, true);
  const Tensor g = weight.defined() ? grad * reshape(weight, per_channel) : grad;
  if (context.needs(0))
    context.set(0, to(reshape(norm.gradient(reshape(g, grouped)), shape), dtypes[0]));
  if (context.needs(1))
    context.set(1, to(sum(grad * reshape(norm.xhat, shape), others), dtypes[1]));
  if (context.needs(2)) context.set(2, to(sum(grad, others), dtypes[2]));
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps, Where where) {
  check_eps("group_norm", eps, where);
  auto [y, mean, rstd] = kernels::group_norm(x, groups, weight, bias, eps, where);
  if (needs_grad(x, weight, bias))
    record("group_norm", where, y, {&x, &weight, &bias},
           [x = save(x), weight = save_if(x.requires_grad(), weight), mean = mean, rstd = rstd,
            groups, eps, dtypes = std::array{x.dtype(), dtype_or(weight, x), dtype_or(bias, x)}](
               BackwardContext& context) {
             if (grad_enabled() && x.get().numel() > 0)
               return backward_recorded(context, x.get(), groups, weight.get(), dtypes, eps);
             auto gradients = kernels::group_norm_backward(context.grad_output(), x.get(),
                                                           weight.get(), mean, rstd);
             context.set(0, std::move(gradients.input));
             context.set(1, to(gradients.weight, dtypes[1]));
             context.set(2, to(gradients.bias, dtypes[2]));
           });
  return y;
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     Where where) {
  check_eps("instance_norm", eps, where);
  const Shape& shape = x.shape(where);
  RINGRAD_CHECK(shape.size() >= 3, ShapeError, where,
                "instance_norm: x must be (B, C, ...) with at least three axes; got ", shape);
  RINGRAD_CHECK(shape[0] * shape[1] == 0 || x.numel() != shape[0] * shape[1], ShapeError, where,
                "instance_norm: a channel needs more than one position; got ", shape);
  const std::int64_t groups = std::max<std::int64_t>(shape[1], 1);  // group_norm needs a group
  return group_norm(x, groups, weight, bias, eps, where);
}

}  // namespace ringrad
