#include "ringrad/kernels/order/sort.h"

#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels {
namespace {

Sorted sort_first(const char* operation, const Tensor& x, std::int64_t axis, std::int64_t k,
                  bool descending, Where where) {
  const Lines lines = lines_along(operation, x.shape(), axis, where);
  RINGRAD_CHECK(lines.n < std::int64_t{1} << 31, ValueError, where, operation,
                ": a line must have fewer than 2^31 elements; got ", lines.n);
  Shape shape = x.shape();
  if (!shape.empty()) shape[normalize_axis(operation, axis, x.dims(), where)] = k;
  const Sorted sorted{empty(shape, {.dtype = x.dtype(), .device = x.device()}, where),
                      empty(shape, {.dtype = DType::int64, .device = x.device()}, where)};
  if (sorted.values.numel() == 0) return sorted;
  const Tensor input = contiguous(x, where);
  if (x.device().is_cuda())
    cuda::sort(input, lines, k, descending, sorted, where);
  else
    cpu::sort(input, lines, k, descending, sorted);
  return sorted;
}

}  // namespace

Sorted sort(const Tensor& x, std::int64_t axis, bool descending, Where where) {
  const std::int64_t n = lines_along("sort", x.shape(where), axis, where).n;
  return sort_first("sort", x, axis, n, descending, where);
}

Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest, Where where) {
  const std::int64_t n = lines_along("topk", x.shape(where), axis, where).n;
  RINGRAD_CHECK(k >= 0 && k <= n && (x.dims() > 0 || k == 1), ShapeError, where,
                "topk: k must be at most the extent of the axis; got ", k, " for axis ", axis,
                " of ", x.shape());
  return sort_first("topk", x, axis, k, largest, where);
}

}  // namespace ringrad::kernels
