#include "ringrad/autograd/broadcast.h"

#include "ringrad/autograd/function.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {

Tensor expand(const Tensor& x, const Shape& shape, Where where) {
  if (x.shape(where) == shape) return x;
  return record_linear("expand", where, view::expand(x, shape, where), x,
                       [shape = x.shape()](const Tensor& grad) { return sum_to(grad, shape); });
}

Tensor sum_to(const Tensor& x, const Shape& shape, Where where) {
  if (x.shape(where) == shape) return x;
  return record_linear("sum_to", where, kernels::sum_to(x, shape, where), x,
                       [shape = x.shape()](const Tensor& grad) { return expand(grad, shape); });
}

}  // namespace ringrad
