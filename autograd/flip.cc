#include "ringrad/autograd/flip.h"

#include "ringrad/autograd/function.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/flip.h"

namespace ringrad {

Tensor flip(const Tensor& x, const Shape& axes, Where where) {
  Tensor y = axes.empty() ? kernels::clone(x, where) : kernels::flip(x, axes, where);
  if (needs_grad(x))
    record("flip", where, y, {&x},
           [axes](BackwardContext& context) { context.set(0, flip(context.grad_output(), axes)); });
  return y;
}

}  // namespace ringrad
