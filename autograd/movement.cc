#include "ringrad/autograd/movement.h"

#include <algorithm>

#include "ringrad/autograd/function.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/concatenate.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad {
namespace {

// What it takes to make a tensor like another, without that tensor's memory.
struct Kind {
  Shape shape;
  Options options;

  explicit Kind(const Tensor& x)
      : shape(x.shape()),
        options{.dtype = x.dtype(),
                .device = x.device(),
                .layout = x.is_channels_last() && !x.is_contiguous() ? Layout::channels_last
                                                                     : Layout::contiguous} {}
};

// The adjoint of slice: zeros of the given kind, with x at the position of the slice.
Tensor embed(const Tensor& x, const Kind& kind, std::int64_t axis, std::int64_t start,
             std::int64_t end, std::int64_t step, Where where) {
  Tensor y = zeros(kind.shape, kind.options, where);
  kernels::copy_(view::slice(y, axis, start, end, step, where), x, where);
  return record_linear("embed", where, std::move(y), x, [=](const Tensor& grad) {
    return slice(grad, axis, start, end, step, where);
  });
}

// y is a copy of x: the gradient passes through.
Tensor record_copy(const char* name, const Tensor& x, Tensor y, Where where) {
  if (!y.is(x) && needs_grad(x))
    record(name, where, y, {&x},
           [](BackwardContext& context) { context.set(0, context.grad_output()); });
  return y;
}

// y is a view of x with the same elements in the same row-major order.
Tensor record_reshape(const char* name, const Tensor& x, Tensor y, Where where) {
  if (needs_grad(x))
    record(name, where, y, {&x}, [shape = x.shape()](BackwardContext& context) {
      context.set(0, reshape(context.grad_output(), shape));
    });
  return y;
}

}  // namespace

// -- Views --------------------------------------------------------------------------------------

Tensor reshape(const Tensor& x, const Shape& shape, Where where) {
  const Shape full = infer_shape("reshape", shape, x.numel(where), where);
  if (x.shape() == full) return x;
  const auto strides = view::reshaped_strides(x, full);
  const Tensor source = strides ? x : kernels::contiguous(x, where);
  Tensor y = view::as_strided(source, full, strides ? *strides : strides_for(full), source.offset(),
                              where);
  return record_reshape("reshape", x, std::move(y), where);
}

Tensor flatten(const Tensor& x, std::int64_t first, std::int64_t last, Where where) {
  if (x.dims(where) == 0) return reshape(x, {1}, where);
  const int from = normalize_axis("flatten", first, x.dims(), where);
  const int to = normalize_axis("flatten", last, x.dims(), where);
  RINGRAD_CHECK(from <= to, ShapeError, where,
                "flatten: the first axis must not follow the last; got ", first, " and ", last,
                " for shape ", x.shape());
  Shape shape;
  for (int i = 0; i < x.dims(); ++i) {
    if (i > from && i <= to)
      shape[from] *= x.shape()[i];
    else
      shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape, where);
}

Tensor permute(const Tensor& x, const Shape& order, Where where) {
  Tensor y = view::permute(x, order, where);
  if (needs_grad(x)) {
    Shape inverse = order;
    for (int i = 0; i < order.size(); ++i)
      inverse[normalize_axis("permute", order[i], x.dims(), where)] = i;
    record("permute", where, y, {&x}, [inverse](BackwardContext& context) {
      context.set(0, permute(context.grad_output(), inverse));
    });
  }
  return y;
}

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1, Where where) {
  Tensor y = view::transpose(x, axis0, axis1, where);
  if (needs_grad(x))
    record("transpose", where, y, {&x}, [axis0, axis1](BackwardContext& context) {
      context.set(0, transpose(context.grad_output(), axis0, axis1));
    });
  return y;
}

Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end,
             std::int64_t step, Where where) {
  Tensor y = view::slice(x, axis, start, end, step, where);
  if (needs_grad(x))
    record("slice", where, y, {&x}, [=, kind = Kind(x)](BackwardContext& context) {
      context.set(0, embed(context.grad_output(), kind, axis, start, end, step, where));
    });
  return y;
}

Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index, Where where) {
  Tensor y = view::select(x, axis, index, where);
  if (needs_grad(x)) {
    const int a = normalize_axis("select", axis, x.dims(), where);
    const std::int64_t start = index < 0 ? index + x.shape()[a] : index;
    record("select", where, y, {&x}, [=, kind = Kind(x)](BackwardContext& context) {
      const Tensor grad = unsqueeze(context.grad_output(), a);
      context.set(0, embed(grad, kind, a, start, start + 1, 1, where));
    });
  }
  return y;
}

RowIterator begin(const Tensor& x, Where where) {
  RINGRAD_CHECK(x.dims(where) > 0, ShapeError, where,
                "begin: a tensor must have an axis to iterate over; got shape ", x.shape());
  return {x, 0, where};
}

RowIterator end(const Tensor& x, Where where) { return {x, x.size(0, where), where}; }

Tensor squeeze(const Tensor& x, const Shape& axes, Where where) {
  return record_reshape("squeeze", x, view::squeeze(x, axes, where), where);
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis, Where where) {
  return record_reshape("unsqueeze", x, view::unsqueeze(x, axis, where), where);
}

std::vector<Tensor> split_sizes(const Tensor& x, std::span<const std::int64_t> sizes,
                                std::int64_t axis, Where where) {
  const int a = normalize_axis("split", axis, x.dims(), where);
  std::vector<Tensor> pieces;
  pieces.reserve(sizes.size());
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    RINGRAD_CHECK(size >= 0 && size <= x.shape()[a] - start, ShapeError, where,
                  "split: sizes must be counts that add up to the axis; got a piece of ", size,
                  " at ", start, " of axis ", a, " of ", x.shape());
    pieces.push_back(view::slice(x, a, start, start + size, 1, where));
    start += size;
  }
  RINGRAD_CHECK(start == x.shape()[a], ShapeError, where,
                "split: sizes must add up to the axis; got ", start, " and axis ", a, " of ",
                x.shape());
  if (needs_grad(x) && !pieces.empty()) {
    std::vector<Kind> kinds(pieces.begin(), pieces.end());
    record("split", where, pieces, std::span(&x, 1),
           [a, kinds = std::move(kinds)](BackwardContext& context) {
             std::vector<Tensor> grads;
             for (std::size_t k = 0; k < kinds.size(); ++k) {
               const Tensor& grad = context.grad_output(static_cast<int>(k));
               grads.push_back(grad.defined() ? grad : zeros(kinds[k].shape, kinds[k].options));
             }
             context.set(0, concatenate(grads, a));
           });
  }
  return pieces;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis, Where where) {
  const std::int64_t extent = x.size(axis, where);
  RINGRAD_CHECK(size > 0, ValueError, where, "split: the size must be positive; got ", size);
  std::vector<std::int64_t> sizes;
  for (std::int64_t start = 0; start == 0 || start < extent; start += sizes.back()) {
    sizes.push_back(std::min(size, extent - start));
    if (extent == 0) break;
  }
  return split_sizes(x, sizes, axis, where);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis, Where where) {
  const std::int64_t extent = x.size(axis, where);
  RINGRAD_CHECK(count > 0, ValueError, where, "chunk: the count must be positive; got ", count);
  const std::int64_t size = extent / count + (extent % count != 0);
  return split(x, std::max<std::int64_t>(size, 1), axis, where);
}

// -- Copies -------------------------------------------------------------------------------------

Tensor clone(const Tensor& x, Where where) {
  return record_copy("clone", x, kernels::clone(x, where), where);
}

Tensor contiguous(const Tensor& x, Where where) {
  return record_copy("contiguous", x, kernels::contiguous(x, where), where);
}

Tensor to_layout(const Tensor& x, Layout layout, Where where) {
  return record_copy("to_layout", x, kernels::to_layout(x, layout, where), where);
}

Tensor to(const Tensor& x, DType dtype, Where where) {
  Tensor y = kernels::cast(x, dtype, where);
  if (!y.is(x) && is_floating(dtype) && needs_grad(x))
    record("to", where, y, {&x}, [dtype = x.dtype()](BackwardContext& context) {
      context.set(0, to(context.grad_output(), dtype));
    });
  return y;
}

Tensor to(const Tensor& x, Device device, Where where) {
  if (x.device(where) == device) return x;
  const Tensor dense = kernels::to_layout(x, Kind(x).options.layout, where);
  Tensor y = to_device(dense, device, where);
  if (needs_grad(x))
    record("to", where, y, {&x}, [device = x.device()](BackwardContext& context) {
      context.set(0, to(context.grad_output(), device));
    });
  return y;
}

// -- Joining ------------------------------------------------------------------------------------

Tensor concatenate(std::span<const Tensor> list, std::int64_t axis, Where where) {
  Tensor y = kernels::concatenate(list, axis, where);
  if (needs_grad(list)) {
    std::vector<std::int64_t> ends;
    for (const Tensor& x : list)
      ends.push_back((ends.empty() ? 0 : ends.back()) + x.size(axis, where));
    record("concatenate", where, std::span<const Tensor>(&y, 1), list,
           [axis, ends = std::move(ends)](BackwardContext& context) {
             std::int64_t start = 0;
             for (std::size_t i = 0; i < ends.size(); ++i) {
               const int input = static_cast<int>(i);
               if (context.needs(input))
                 context.set(input, slice(context.grad_output(), axis, start, ends[i]));
               start = ends[i];
             }
           });
  }
  return y;
}

Tensor concatenate(std::initializer_list<Tensor> list, std::int64_t axis, Where where) {
  return concatenate(std::span(list.begin(), list.size()), axis, where);
}

Tensor stack(std::span<const Tensor> list, std::int64_t axis, Where where) {
  RINGRAD_CHECK(!list.empty(), ValueError, where,
                "stack: there must be a tensor; got an empty list");
  std::vector<Tensor> layers;
  for (const Tensor& x : list) {
    RINGRAD_CHECK(x.shape(where) == list.front().shape(where), ShapeError, where,
                  "stack: shapes must be equal; got ", list.front().shape(), " and ", x.shape());
    layers.push_back(unsqueeze(x, axis, where));
  }
  return concatenate(layers, axis, where);
}

Tensor stack(std::initializer_list<Tensor> list, std::int64_t axis, Where where) {
  return stack(std::span(list.begin(), list.size()), axis, where);
}

}  // namespace ringrad
