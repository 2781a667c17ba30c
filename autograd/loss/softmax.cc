#include "ringrad/autograd/loss/softmax.h"

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/loss/softmax.h"

namespace ringrad {

Tensor softmax(const Tensor& x, std::int64_t axis, Where where) {
  if (autocasting())
    return with_widened(
        where, [&](auto& wide) { return softmax(wide, axis, where); }, x);
  Tensor y = kernels::softmax(x, axis, where);
  if (needs_grad(x))
    record("softmax", where, y, {&x}, [y = save_output(y), axis](BackwardContext& context) {
      const Tensor& grad = context.grad_output();
      const Tensor p = y.get();
      context.set(0, grad_enabled() ? p * (grad - sum(grad * p, {axis}, true))
                                    : kernels::softmax_backward(grad, p, axis));
    });
  return y;
}

Tensor log_softmax(const Tensor& x, std::int64_t axis, Where where) {
  if (autocasting())
    return with_widened(
        where, [&](auto& wide) { return log_softmax(wide, axis, where); }, x);
  Tensor y = kernels::log_softmax(x, axis, where);
  if (needs_grad(x))
    record("log_softmax", where, y, {&x}, [y = save_output(y), axis](BackwardContext& context) {
      const Tensor& grad = context.grad_output();
      const Tensor log_p = y.get();
      context.set(0, grad_enabled() ? grad - exp(log_p) * sum(grad, {axis}, true)
                                    : kernels::log_softmax_backward(grad, log_p, axis));
    });
  return y;
}

}  // namespace ringrad
