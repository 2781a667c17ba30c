#include "ringrad/autograd/norm/rms_norm.h"

#include <array>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/norm/rms_norm.h"

namespace ringrad {
namespace {

// The gradient, composed of recorded operators: rstd is a function of x again. 16-bit dtypes
// compute in float32, as in the kernels.
void backward_recorded(BackwardContext& context, const Tensor& x_or_half, const Tensor& weight,
                       const std::array<DType, 2>& dtypes, double eps) {
  const auto wide = [](const Tensor& half) {
    return size_bytes(half.dtype()) == 2 ? to(half, DType::float32) : half;
  };
  const Tensor x = wide(x_or_half);
  const Tensor rstd = rsqrt(mean(square(x), {-1}, true) + eps);
  const Tensor xhat = x * rstd;
  const Tensor grad_output = wide(context.grad_output());
  const Tensor grad = weight.defined() ? grad_output * weight : grad_output;
  if (context.needs(0))
    context.set(0, to(rstd * (grad - xhat * mean(grad * xhat, {-1}, true)), dtypes[0]));
  if (context.needs(1))
    context.set(1, to(sum_to(grad_output * xhat, Shape{x.shape().back()}), dtypes[1]));
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  check_eps("rms_norm", eps, where);
  auto [y, rstd] = kernels::rms_norm(x, weight, eps, where);
  if (needs_grad(x, weight))
    record("rms_norm", where, y, {&x, &weight},
           [x = save(x), weight = save_if(x.requires_grad(), weight), rstd = rstd, eps,
            dtypes = std::array{x.dtype(), weight.defined() ? weight.dtype() : x.dtype()}](
               BackwardContext& context) {
             if (grad_enabled())
               return backward_recorded(context, x.get(), weight.get(), dtypes, eps);
             auto gradients =
                 kernels::rms_norm_backward(context.grad_output(), x.get(), weight.get(), rstd);
             context.set(0, std::move(gradients.input));
             context.set(1, to(gradients.weight, dtypes[1]));
           });
  return y;
}

}  // namespace ringrad
