#include "ringrad/autograd/norm/rms_norm.h"

#include <array>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/norm/recorded_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/norm/row_norm.h"

namespace ringrad {
namespace {

void backward_recorded(BackwardContext& context, const Tensor& x, const Tensor& weight,
                       const std::array<DType, 2>& dtypes, double eps) {
  const RecordedNorm norm(widened(x), eps, false);
  const Tensor grad = widened(context.grad_output());
  if (context.needs(0))
    context.set(0, to(norm.gradient(weight.defined() ? grad * weight : grad), dtypes[0]));
  if (context.needs(1))
    context.set(1, to(sum_to(grad * norm.xhat, Shape{x.shape().back()}), dtypes[1]));
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  check_eps("rms_norm", eps, where);
  auto [y, mean, rstd] = kernels::rms_norm(x, weight, eps, where);
  if (needs_grad(x, weight))
    record("rms_norm", where, y, {&x, &weight},
           [x = save(x), weight = save_if(x.requires_grad(), weight), rstd = rstd, eps,
            dtypes = std::array{x.dtype(), dtype_or(weight, x)}](BackwardContext& context) {
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
