#include "ringrad/kernels/index/index_select.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/index/indices.h"

namespace ringrad::kernels {
namespace {

// The product of the extents of the axes before `axis`, or of those after it.
std::int64_t outer_extent(const Shape& shape, int axis) {
  std::int64_t product = 1;
  for (int i = 0; i < axis; ++i) product *= shape[i];
  return product;
}
std::int64_t inner_extent(const Shape& shape, int axis) {
  std::int64_t product = 1;
  for (int i = axis + 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

void check_arguments(const char* operation, const Tensor& x, const Tensor& indices,
                     std::int64_t bound, Where where) {
  check_same_device(operation, x, indices, where);
  RINGRAD_CHECK(indices.dims() == 1, ShapeError, where, operation,
                ": indices must have one axis; got ", indices.shape());
  check_indices(operation, "indices", indices, bound, where);
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& indices, Where where) {
  const int a = normalize_axis("index_select", axis, x.dims(where), where);
  check_arguments("index_select", x, indices, x.shape()[a], where);
  Shape shape = x.shape();
  shape[a] = indices.numel();
  const Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()}, where);
  select_slices(contiguous(x, where), outer_extent(shape, a), x.shape()[a], inner_extent(shape, a),
                contiguous(indices, where), y, where);
  return y;
}

Tensor index_sum(const Tensor& x, std::int64_t axis, const Tensor& indices, std::int64_t size,
                 Where where) {
  check_floating("index_sum", x, where);
  const int a = normalize_axis("index_sum", axis, x.dims(), where);
  check_arguments("index_sum", x, indices, size, where);
  RINGRAD_CHECK(x.shape()[a] == indices.numel(), ShapeError, where,
                "index_sum: there must be one index per slice; got ", indices.numel(),
                " indices for axis ", a, " of ", x.shape());
  Shape shape = x.shape();
  shape[a] = size;
  const Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()}, where);
  constexpr std::int64_t kNone = -1;
  sum_slices(contiguous(x, where), outer_extent(shape, a), size, inner_extent(shape, a),
             contiguous(indices, where), kNone, y, where);
  return y;
}

void select_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   const Tensor& indices, const Tensor& y, Where where) {
  if (y.device().is_cuda()) return cuda::select_slices(x, outer, size, inner, indices, y, where);
  cpu::select_slices(x, outer, size, inner, indices, y);
}

void sum_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Tensor& indices, std::int64_t excluded, const Tensor& y, Where where) {
  if (y.device().is_cuda())
    return cuda::sum_slices(x, outer, size, inner, indices, excluded, y, where);
  cpu::sum_slices(x, outer, size, inner, indices, excluded, y);
}

}  // namespace ringrad::kernels
