#include "ringrad/autograd/index/index_select.h"

#include "ringrad/autograd/function.h"
#include "ringrad/kernels/index/index_select.h"

namespace ringrad {
namespace {

// y[.., j, ..] = sum of x[.., i, ..] over indices[i] = j: the adjoint of index_select; its own
// adjoint is index_select.
Tensor index_sum(const Tensor& x, std::int64_t axis, const Tensor& indices, std::int64_t size) {
  const Where where = Where::current();
  Tensor y = kernels::index_sum(x, axis, indices, size, where);
  if (needs_grad(x))
    record("index_sum", where, y, {&x}, [indices = save(indices), axis](BackwardContext& context) {
      context.set(0, index_select(context.grad_output(), axis, indices.get()));
    });
  return y;
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& indices, Where where) {
  Tensor y = kernels::index_select(x, axis, indices, where);
  if (needs_grad(x))
    record("index_select", where, y, {&x},
           [indices = save(indices), axis, size = x.size(axis)](BackwardContext& context) {
             context.set(0, index_sum(context.grad_output(), axis, indices.get(), size));
           });
  return y;
}

}  // namespace ringrad
