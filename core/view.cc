#include "ringrad/core/view.h"

#include <algorithm>
#include <utility>

namespace ringrad::view {

Tensor alias(const Tensor& x, Where where) {
  return as_strided(x, x.shape(where), x.strides(where), x.offset(where), where);
}

Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset,
                  Where where) {
  auto impl = make_ref<TensorImpl>(x.storage(), offset, shape, strides, x.dtype(), where);
  if (impl->numel == 0) impl->offset = 0;  // there may be no memory to point into
  return Tensor(std::move(impl));
}

// Walks both shapes from the last axis. A run of x's axes that are contiguous among themselves may
// be divided differently; an axis of the new shape must not span two runs.
std::optional<Strides> reshaped_strides(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return strides_for(shape);
  if (x.numel() == 0) return strides_for(shape);
  Strides result = Shape::filled(shape.size(), 1);
  int to = shape.size() - 1;
  std::int64_t run = 1;  // elements in the current run of x's axes
  std::int64_t run_stride = x.strides()[x.dims() - 1];
  for (int from = x.dims() - 1; from >= 0; --from) {
    run *= x.shape()[from];
    const bool run_ends =
        from == 0 || (x.shape()[from - 1] != 1 && x.strides()[from - 1] != run * run_stride);
    if (!run_ends) continue;
    std::int64_t step = run_stride;
    while (run > 1) {
      if (run % shape[to] != 0) return std::nullopt;
      result[to] = step;
      step *= shape[to];
      run /= shape[to];
      --to;
    }
    if (from > 0) run_stride = x.strides()[from - 1];
  }
  return result;
}

Tensor reshape(const Tensor& x, const Shape& shape, Where where) {
  const Shape full = infer_shape("reshape", shape, x.numel(where), where);
  const auto strides = reshaped_strides(x, full);
  RINGRAD_CHECK(strides, ShapeError, where, "reshape: a view of ", x.shape(), " with strides ",
                x.strides(), " must not need a copy; got ", full, "; make it contiguous first");
  return as_strided(x, full, *strides, x.offset(), where);
}

Tensor permute(const Tensor& x, const Shape& order, Where where) {
  RINGRAD_CHECK(order.size() == x.dims(where), ShapeError, where,
                "permute: every axis must be named once; got ", order, " for shape ", x.shape());
  Shape shape = x.shape();
  Strides strides = x.strides();
  unsigned seen = 0;
  for (int i = 0; i < order.size(); ++i) {
    const int axis = normalize_axis("permute", order[i], x.dims(where), where);
    seen |= 1u << axis;
    shape[i] = x.shape()[axis];
    strides[i] = x.strides()[axis];
  }
  RINGRAD_CHECK(seen == (1u << x.dims()) - 1u, ShapeError, where,
                "permute: every axis must be named once; got ", order, " for shape ", x.shape());
  return as_strided(x, shape, strides, x.offset(), where);
}

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1, Where where) {
  const int a = normalize_axis("transpose", axis0, x.dims(where), where);
  const int b = normalize_axis("transpose", axis1, x.dims(where), where);
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return as_strided(x, shape, strides, x.offset(), where);
}

Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end,
             std::int64_t step, Where where) {
  const int a = normalize_axis("slice", axis, x.dims(where), where);
  RINGRAD_CHECK(step > 0, ValueError, where, "slice: step must be positive; got ", step);
  const std::int64_t extent = x.shape()[a];
  const auto clamp = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(position < 0 ? position + extent : position, 0, extent);
  };
  const std::int64_t first = clamp(start);
  const std::int64_t last = std::max(first, clamp(end));
  step = std::min(step, std::max<std::int64_t>(extent, 1));  // longer steps also reach one element
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[a] = (last - first + step - 1) / step;
  strides[a] *= step;
  return as_strided(x, shape, strides, x.offset() + first * x.strides()[a], where);
}

Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index, Where where) {
  const int a = normalize_axis("select", axis, x.dims(where), where);
  const std::int64_t extent = x.shape()[a];
  RINGRAD_CHECK(index >= -extent && index < extent, IndexError, where, "select: index must be in [",
                -extent, ", ", extent, "); got ", index);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(a);
  strides.erase(a);
  const std::int64_t position = index < 0 ? index + extent : index;
  return as_strided(x, shape, strides, x.offset() + position * x.strides()[a], where);
}

Tensor expand(const Tensor& x, const Shape& shape, Where where) {
  RINGRAD_CHECK(broadcasts_to(x.shape(where), shape), ShapeError, where,
                "expand: axes must be equal or 1; got ", x.shape(), " and ", shape);
  check_extents("expand", shape, size_bytes(x.dtype()), where);
  Strides strides = Shape::filled(shape.size(), 0);
  const int offset = shape.size() - x.dims();
  for (int i = 0; i < x.dims(); ++i)
    if (x.shape()[i] == shape[i + offset]) strides[i + offset] = x.strides()[i];
  return as_strided(x, shape, strides, x.offset(), where);
}

Tensor squeeze(const Tensor& x, const Shape& axes, Where where) {
  const unsigned mask = axes_mask("squeeze", axes, x.dims(where), where);
  Shape shape;
  Strides strides;
  for (int i = 0; i < x.dims(); ++i) {
    if (x.shape()[i] == 1 && (mask >> i & 1u)) continue;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  return as_strided(x, shape, strides, x.offset(), where);
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis, Where where) {
  const int a = normalize_axis("unsqueeze", axis, x.dims(where) + 1, where);
  RINGRAD_CHECK(x.dims() < kMaxDims, ShapeError, where, "unsqueeze: at most ", kMaxDims,
                " axes are supported; got ", x.shape());
  Shape shape = x.shape();
  Strides strides = x.strides();
  strides.insert(a, a < x.dims() ? x.shape()[a] * x.strides()[a] : 1);
  shape.insert(a, 1);
  return as_strided(x, shape, strides, x.offset(), where);
}

}  // namespace ringrad::view
