#include "ringrad/autograd/norm/layer_norm.h"

#include <array>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/norm/layer_norm.h"

namespace ringrad {
namespace {

// The gradient, composed of recorded operators: the statistics are functions of x again. 16-bit
// dtypes compute in float32, as in the kernels.
void backward_recorded(BackwardContext& context, const Tensor& x_or_half, const Tensor& weight,
                       const std::array<DType, 3>& dtypes, double eps) {
  const auto wide = [](const Tensor& half) {
    return size_bytes(half.dtype()) == 2 ? to(half, DType::float32) : half;
  };
  const Tensor x = wide(x_or_half);
  const auto mean_of = [](const Tensor& values) { return mean(values, {-1}, true); };
  const Tensor distances = x - mean_of(x);  // from the rounded mean
  const Tensor centred = distances - mean_of(distances);
  const Tensor rstd = rsqrt(mean_of(square(centred)) + eps);
  const Tensor xhat = centred * rstd;
  const Tensor grad_output = wide(context.grad_output());
  const Tensor grad = weight.defined() ? grad_output * weight : grad_output;
  const Shape vector{x.shape().back()};
  if (context.needs(0))
    context.set(0, to(rstd * (grad - mean_of(grad) - xhat * mean_of(grad * xhat)), dtypes[0]));
  if (context.needs(1)) context.set(1, to(sum_to(grad_output * xhat, vector), dtypes[1]));
  if (context.needs(2)) context.set(2, to(sum_to(grad_output, vector), dtypes[2]));
}

// Parameters may be wider than x: bfloat16 activations normalised by float32 weights.
DType dtype_or(const Tensor& parameter, const Tensor& x) {
  return parameter.defined() ? parameter.dtype() : x.dtype();
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  Where where) {
  check_eps("layer_norm", eps, where);
  auto [y, mean, rstd] = kernels::layer_norm(x, weight, bias, eps, where);
  if (needs_grad(x, weight, bias))
    record("layer_norm", where, y, {&x, &weight, &bias},
           [x = save(x), weight = save_if(x.requires_grad(), weight), mean = mean, rstd = rstd, eps,
            dtypes = std::array{x.dtype(), dtype_or(weight, x), dtype_or(bias, x)}](
               BackwardContext& context) {
             if (grad_enabled())
               return backward_recorded(context, x.get(), weight.get(), dtypes, eps);
             auto gradients = kernels::layer_norm_backward(context.grad_output(), x.get(),
                                                           weight.get(), mean, rstd);
             context.set(0, std::move(gradients.input));
             context.set(1, to(gradients.weight, dtypes[1]));
             context.set(2, to(gradients.bias, dtypes[2]));
           });
  return y;
}

}  // namespace ringrad
