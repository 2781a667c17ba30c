#include "ringrad/autograd/index/scatter.h"

#include "ringrad/autograd/broadcast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/index/brackets.h"
#include "ringrad/autograd/index/gather.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/index/gather.h"
#include "ringrad/kernels/index/index_select.h"

namespace ringrad {
namespace {

// True for the elements of index that are the last for their place in a tensor of this shape.
Tensor last_for_their_place(const Shape& shape, std::int64_t axis, const Tensor& index) {
  const DefaultDeviceGuard guard(index.device());
  const Tensor number = reshape(arange(index.numel()), index.shape());
  const Tensor none = zeros(shape, {.dtype = DType::int64});
  const Tensor last = kernels::scatter(none, axis, index, number);
  return eq(kernels::gather(last, axis, index), number);
}

}  // namespace

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
               Where at) {
  Tensor y = kernels::scatter(x, axis, index, src, at);
  if (needs_grad(x, src)) {
    Tensor part = src;  // what index covers
    for (int i = 0; i < src.dims(); ++i)
      if (index.shape()[i] < part.shape()[i]) part = slice(part, i, 0, index.shape()[i], 1, at);
    record("scatter", at, y, {&x, &part}, [index = save(index), axis](BackwardContext& context) {
      const Tensor& grad = context.grad_output();
      const Tensor zero = zeros({}, {.dtype = grad.dtype(), .device = grad.device()});
      if (context.needs(0)) context.set(0, scatter(grad, axis, index.get(), 0));
      if (context.needs(1)) {
        const Tensor stays = last_for_their_place(grad.shape(), axis, index.get());
        context.set(1, where(stays, gather(grad, axis, index.get()), zero));
      }
    });
  }
  return y;
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, Scalar value, Where where) {
  const Tensor one = full({}, value, {.dtype = x.dtype(where), .device = x.device()}, where);
  return scatter(x, axis, index, expand(one, index.shape(where), where), where);
}

Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                 Scalar alpha, Where where) {
  const int a = normalize_axis("index_add", axis, x.dims(where), where);
  check_same_dtype("index_add", x, src, where);
  check_same_device("index_add", x, src, where);
  Shape shape = x.shape();
  shape[a] = index.numel(where);
  RINGRAD_CHECK(src.shape() == shape, ShapeError, where,
                "index_add: src must have x's shape, with a slice per index along axis ", a,
                "; got ", src.shape(), " for x ", x.shape(), " and ", index.numel(), " indices");
  Tensor y = kernels::clone(x, where);
  kernels::add_(y, kernels::index_sum(src, a, index, x.shape()[a], where), alpha, where);
  if (needs_grad(x, src))
    record("index_add", where, y, {&x, &src},
           [index = save(index), a, alpha](BackwardContext& context) {
             context.set(0, context.grad_output());
             if (context.needs(1))
               context.set(1, index_select(context.grad_output(), a, index.get()) * alpha);
           });
  return y;
}

Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& value,
                  Where at) {
  const int a = normalize_axis("index_fill", axis, x.dims(at), at);
  check_same_dtype("index_fill", x, value, at);
  check_same_device("index_fill", x, value, at);
  check_same_device("index_fill", x, index, at);
  RINGRAD_CHECK(value.dims() == 0 && index.dims() == 1, ShapeError, at,
                "index_fill: the value must have no axes and index one; got shapes ", value.shape(),
                " and ", index.shape());
  RINGRAD_CHECK(index.dtype() == DType::int64 || index.dtype() == DType::int32, DTypeError, at,
                "index_fill: index must be int32 or int64; got ", index.dtype());
  Shape along = Shape::filled(x.dims(), 1);
  along[a] = x.shape()[a];
  const Tensor positions = detail::from_start("index_fill", index, along[a], at);
  const Options options{.dtype = DType::bool_, .device = x.device()};
  const Tensor is_filled = zeros(along[a], options, at);
  kernels::scatter_(is_filled, 0, positions, ones(index.shape(), options, at), at);
  return where(view::reshape(is_filled, along, at), value, x, at);
}

Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, Scalar value,
                  Where where) {
  const Options options{.dtype = x.dtype(where), .device = x.device()};
  return index_fill(x, axis, index, full({}, value, options, where), where);
}

}  // namespace ringrad
