#include "ringrad/autograd/index/gather.h"

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/index/gather.h"

namespace ringrad {
namespace {

// The adjoint of gather; its own adjoint is gather.
Tensor scatter_sum(const Shape& shape, std::int64_t axis, const Tensor& index, const Tensor& src) {
  const Where where = Where::current();
  Tensor y = kernels::scatter_sum(shape, axis, index, src, where);
  if (needs_grad(src))
    record("scatter_sum", where, y, {&src}, [index = save(index), axis](BackwardContext& context) {
      context.set(0, gather(context.grad_output(), axis, index.get()));
    });
  return y;
}

// The part of src that index covers.
Tensor covered(const Tensor& src, const Shape& index, Where where) {
  Tensor part = src;
  for (int axis = 0; axis < src.dims(); ++axis)
    if (index[axis] < part.shape()[axis]) part = slice(part, axis, 0, index[axis], 1, where);
  return part;
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index, Where where) {
  Tensor y = kernels::gather(x, axis, index, where);
  if (needs_grad(x))
    record("gather", where, y, {&x},
           [index = save(index), axis, shape = x.shape()](BackwardContext& context) {
             context.set(0, scatter_sum(shape, axis, index.get(), context.grad_output()));
           });
  return y;
}

Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                   Where where) {
  Tensor y = kernels::scatter_add(x, axis, index, src, where);
  if (needs_grad(x, src)) {
    const Tensor part = covered(src, index.shape(), where);
    record("scatter_add", where, y, {&x, &part},
           [index = save(index), axis](BackwardContext& context) {
             context.set(0, context.grad_output());
             if (context.needs(1)) context.set(1, gather(context.grad_output(), axis, index.get()));
           });
  }
  return y;
}

}  // namespace ringrad
