#include "ringrad/autograd/broadcast.h"

#include "ringrad/autograd/function.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {

Tensor expand(const Tensor& x, const Shape& shape, Where where) {
  if (x.shape(where) == shape) return x;
  Tensor y = view::expand(x, shape, where);
  if (needs_grad(x))
    record("expand", where, y, {&x}, [shape = x.shape()](BackwardContext& context) {
      context.set(0, sum_to(context.grad_output(), shape));
    });
  return y;
}

Tensor sum_to(const Tensor& x, const Shape& shape, Where where) {
  if (x.shape(where) == shape) return x;
  Tensor y = kernels::sum_to(x, shape, where);
  if (needs_grad(x))
    record("sum_to", where, y, {&x}, [shape = x.shape()](BackwardContext& context) {
      context.set(0, expand(context.grad_output(), shape));
    });
  return y;
}

}  // namespace ringrad
