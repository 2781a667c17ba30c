#include "ringrad/autograd/norm/group_norm.h"

#include <algorithm>
#include <array>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/norm/group_norm.h"

namespace ringrad {
namespace {

// The gradient, composed of recorded operators: the statistics are functions of x again. 16-bit
// dtypes compute in float32, as in the kernels.
void backward_recorded(BackwardContext& context, const Tensor& x_or_half, std::int64_t groups,
                       const Tensor& weight, const std::array<DType, 3>& dtypes, double eps) {
  const auto wide = [](const Tensor& half) {
    return size_bytes(half.dtype()) == 2 ? to(half, DType::float32) : half;
  };
  const Tensor x = wide(x_or_half), grad_output = wide(context.grad_output());
  const Shape& shape = x.shape();
  const Shape grouped{shape[0], groups, x.numel() / (shape[0] * groups)};
  Shape per_channel = Shape::filled(x.dims(), 1), others;  // others: all axes but the channels
  per_channel[1] = shape[1];
  for (int axis = 0; axis < x.dims(); ++axis)
    if (axis != 1) others.push_back(axis);
  const auto mean_of = [](const Tensor& values) { return mean(values, {-1}, true); };
  const Tensor rows = reshape(x, grouped);
  const Tensor distances = rows - mean_of(rows);  // from the rounded mean
  const Tensor centred = distances - mean_of(distances);
  const Tensor rstd = rsqrt(mean_of(square(centred)) + eps);
  const Tensor xhat = centred * rstd;
  const Tensor grad =
      reshape(weight.defined() ? grad_output * reshape(weight, per_channel) : grad_output, grouped);
  if (context.needs(0))
    context.set(0, to(reshape(rstd * (grad - mean_of(grad) - xhat * mean_of(grad * xhat)), shape),
                      dtypes[0]));
  if (context.needs(1))
    context.set(1, to(sum(grad_output * reshape(xhat, shape), others), dtypes[1]));
  if (context.needs(2)) context.set(2, to(sum(grad_output, others), dtypes[2]));
}

DType dtype_or(const Tensor& parameter, const Tensor& x) {
  return parameter.defined() ? parameter.dtype() : x.dtype();
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
