#include "ringrad/autograd/norm/layer_norm.h"

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
                       const std::array<DType, 3>& dtypes, double eps) {
  const RecordedNorm norm(widened(x), eps, true);
  const Tensor grad = widened(context.grad_output());
  const Shape vector{x.shape().back()};
  if (context.needs(0))
    context.set(0, to(norm.gradient(weight.defined() ? grad * weight : grad), dtypes[0]));
  if (context.needs(1)) context.set(1, to(sum_to(grad * norm.xhat, vector), dtypes[1]));
  if (context.needs(2)) context.set(2, to(sum_to(grad, vector), dtypes[2]));
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
