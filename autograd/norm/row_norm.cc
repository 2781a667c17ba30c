#include "ringrad/autograd/norm/row_norm.h"

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
                       const std::array<DType, 3>& dtypes, double eps, bool is_centred) {
  const RecordedNorm norm(widened(x), eps, is_centred);
  const Tensor grad = widened(context.grad_output());
  const Shape vector{x.shape().back()};
  if (context.needs(0))
    context.set(0, to(norm.gradient(weight.defined() ? grad * weight : grad), dtypes[0]));
  if (context.needs(1)) context.set(1, to(sum_to(grad * norm.xhat, vector), dtypes[1]));
  if (context.needs(2)) context.set(2, to(sum_to(grad, vector), dtypes[2]));
}

// Layer norm is centred. RMS norm has no mean, and its bias is undefined.
Tensor row_norm(const char* name, bool is_centred, const Tensor& x, const Tensor& weight,
                const Tensor& bias, double eps, Where where) {
  check_eps(name, eps, where);
  auto [y, mean, rstd] = is_centred ? kernels::layer_norm(x, weight, bias, eps, where)
                                    : kernels::rms_norm(x, weight, eps, where);
  if (needs_grad(x, weight, bias))
    record(name, where, y, {&x, &weight, &bias},
           [x = save(x), weight = save_if(x.requires_grad(), weight), mean = mean, rstd = rstd, eps,
            is_centred, dtypes = std::array{x.dtype(), dtype_or(weight, x), dtype_or(bias, x)}](
               BackwardContext& context) {
             if (grad_enabled())
               return backward_recorded(context, x.get(), weight.get(), dtypes, eps, is_centred);
             const Tensor grad = context.grad_output();
             auto gradients =
                 is_centred ? kernels::layer_norm_backward(grad, x.get(), weight.get(), mean, rstd)
                            : kernels::rms_norm_backward(grad, x.get(), weight.get(), rstd);
             context.set(0, std::move(gradients.input));
             context.set(1, to(gradients.weight, dtypes[1]));
             if (is_centred) context.set(2, to(gradients.bias, dtypes[2]));
           });
  return y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  Where where) {
  return row_norm("layer_norm", true, x, weight, bias, eps, where);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  return row_norm("rms_norm", false, x, weight, {}, eps, where);
}

}  // namespace ringrad
