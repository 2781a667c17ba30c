#include "ringrad/kernels/index/gather.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/index/indices.h"
#include "ringrad/kernels/overlap.h"

namespace ringrad::kernels {
namespace {

constexpr int kEveryAxis = -1;

// index must fit into `other` along every axis but `free_axis`.
void check_fits(const char* operation, const Shape& index, const char* what, const Shape& other,
                int free_axis, Where where) {
  RINGRAD_CHECK(index.size() == other.size(), ShapeError, where, operation, ": index and ", what,
                " must have as many axes; got ", index, " and ", other);
  for (int axis = 0; axis < index.size(); ++axis)
    RINGRAD_CHECK(axis == free_axis || index[axis] <= other[axis], ShapeError, where, operation,
                  ": index must not be longer than ", what, " along axis ", axis, "; got ", index,
                  " and ", other);
}

void check_scatter(const char* operation, const Shape& shape, std::int64_t axis,
                   const Tensor& index, const Tensor& src, Where where) {
  const int a = normalize_axis(operation, axis, shape.size(), where);
  check_same_device(operation, src, index, where);
  check_fits(operation, index.shape(), "x", shape, a, where);
  check_fits(operation, index.shape(), "src", src.shape(), kEveryAxis, where);
  check_indices(operation, "index", index, shape[a], where);
}

// Sums of the 16-bit dtypes accumulate in float32 and are rounded once.
DType sum_dtype(DType dtype) { return size_bytes(dtype) == 2 ? DType::float32 : dtype; }

// Adds src to y in y's memory, and returns the result converted to src's dtype.
Tensor scatter_onto(const Tensor& y, std::int64_t axis, const Tensor& index, const Tensor& src,
                    Where where) {
  const int a = normalize_axis("scatter_add", axis, y.dims(), where);
  if (y.device().is_cuda())
    cuda::scatter_add(y, a, contiguous(index, where), src, where);
  else
    cpu::scatter_add(y, a, contiguous(index, where), cast(src, y.dtype(), where));
  return cast(y, src.dtype(), where);
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index, Where where) {
  const int a = normalize_axis("gather", axis, x.dims(where), where);
  check_same_device("gather", x, index, where);
  check_fits("gather", index.shape(), "x", x.shape(), a, where);
  check_index("gather", index.dtype(), where);
  const Tensor y = empty(index.shape(), {.dtype = x.dtype(), .device = x.device()}, where);
  const auto check = [&] { check_indices("gather", "index", index, x.shape()[a], where); };
  if (x.device().is_cuda()) {
    check();
    cuda::gather(x, a, contiguous(index, where), y, where);
  } else if (!cpu::gather(x, a, contiguous(index, where), y)) {
    check();  // throws, with the first bad index
  }
  return y;
}

Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                   Where where) {
  check_floating("scatter_add", src, where);
  check_scatter("scatter_add", x.shape(where), axis, index, src, where);
  check_same_dtype("scatter_add", x, src, where);
  check_same_device("scatter_add", x, src, where);
  const DType dtype = sum_dtype(x.dtype());
  const Tensor y = x.dtype() == dtype ? clone(x, where) : cast(x, dtype, where);
  return scatter_onto(y, axis, index, src, where);
}

void scatter_(const Tensor& y, std::int64_t axis, const Tensor& index, const Tensor& src,
              Where where) {
  check_scatter("scatter", y.shape(where), axis, index, src, where);
  check_same_dtype("scatter", y, src, where);
  check_same_device("scatter", y, src, where);
  y.check_writable("scatter", where);
  if (index.numel() == 0) return;
  const int a = normalize_axis("scatter", axis, y.dims(), where);
  const Tensor from = memory_overlaps(y, src) ? clone(src, where) : src;
  if (y.device().is_cuda())
    cuda::scatter(y, a, contiguous(index, where), from, where);
  else
    cpu::scatter(y, a, contiguous(index, where), from);
  y.mark_changed(where);
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
               Where where) {
  const Tensor y = clone(x, where);
  scatter_(y, axis, index, src, where);
  return y;
}

Tensor scatter_sum(const Shape& shape, std::int64_t axis, const Tensor& index, const Tensor& src,
                   Where where) {
  check_floating("scatter_sum", src, where);
  check_scatter("scatter_sum", shape, axis, index, src, where);
  const Tensor y = zeros(shape, {.dtype = sum_dtype(src.dtype()), .device = src.device()}, where);
  return scatter_onto(y, axis, index, src, where);
}

}  // namespace ringrad::kernels
