#include "ringrad/autograd/shape/unfold.h"

#include <algorithm>

#include "ringrad/autograd/function.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {
namespace {

// The adjoint of unfold: sums windows x (.., count, .., size) into zeros of the given shape. One
// pass per position of a window, so every element is summed in the order of these positions; those
// of one pass are distinct. The 16-bit dtypes are summed in float32.
Tensor fold(const Tensor& x, const Shape& shape, int axis, std::int64_t step, Where where) {
  const std::int64_t size = x.size(-1), count = x.shape()[axis];
  const DType dtype = size_bytes(x.dtype()) == 2 ? DType::float32 : x.dtype();
  const Tensor sum = zeros(shape, {.dtype = dtype, .device = x.device()}, where);
  for (std::int64_t k = 0; k < size; ++k) {
    const std::int64_t end = k + (count - 1) * step + 1;
    kernels::add_(view::slice(sum, axis, k, end, step, where), view::select(x, -1, k, where), 1,
                  where);
  }
  Tensor y = kernels::cast(sum, x.dtype(), where);
  return record_linear("fold", where, std::move(y), x,
                       [=](const Tensor& grad) { return unfold(grad, axis, size, step, where); });
}

}  // namespace

Tensor unfold(const Tensor& x, std::int64_t axis, std::int64_t size, std::int64_t step,
              Where where) {
  const int a = normalize_axis("unfold", axis, x.dims(where), where);
  const std::int64_t extent = x.shape()[a];
  RINGRAD_CHECK(size >= 0 && size <= extent, ShapeError, where,
                "unfold: a window must fit into the axis; got size ", size, " for axis ", a, " of ",
                x.shape());
  RINGRAD_CHECK(step > 0, ValueError, where, "unfold: step must be positive; got ", step);
  RINGRAD_CHECK(x.dims() < kMaxDims, ShapeError, where, "unfold: at most ", kMaxDims,
                " axes are supported; got ", x.shape(), " and one more");
  step = std::min(step, extent - size + 1);  // longer steps also reach one window
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[a] = (extent - size) / step + 1;
  strides[a] *= step;
  shape.push_back(size);
  strides.push_back(x.strides()[a]);
  Tensor y = view::as_strided(x, shape, strides, x.offset(), where);
  return record_linear(
      "unfold", where, std::move(y), x,
      [=, shape = x.shape()](const Tensor& grad) { return fold(grad, shape, a, step, where); });
}

}  // namespace ringrad
