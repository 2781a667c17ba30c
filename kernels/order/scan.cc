#include "ringrad/kernels/order/scan.h"

#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels {

Lines lines_along(const char* operation, const Shape& shape, std::int64_t axis, Where where) {
  const Shape axes = shape.empty() ? Shape{1} : shape;
  const int a = normalize_axis(operation, axis, axes.size(), where);
  Lines lines;
  for (int i = 0; i < a; ++i) lines.outer *= axes[i];
  lines.n = axes[a];
  for (int i = a + 1; i < axes.size(); ++i) lines.inner *= axes[i];
  return lines;
}

Tensor scan(ScanOp op, const Tensor& x, std::int64_t axis, bool reversed, Where where) {
  const char* operation = op == ScanOp::sum ? "cumsum" : "cumprod";
  const Lines lines = lines_along(operation, x.shape(where), axis, where);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::int64;
  const Tensor input = contiguous(cast(x, dtype, where), where);
  const Tensor y = empty(x.shape(), {.dtype = dtype, .device = x.device()}, where);
  if (y.numel() == 0) return y;
  if (x.device().is_cuda())
    cuda::scan(op, input, lines, reversed, y, where);
  else
    cpu::scan(op, input, lines, reversed, y);
  return y;
}

Tensor recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reversed, Where where) {
  const Lines lines = lines_along("recurrence", a.shape(where), axis, where);
  check_floating("recurrence", a, where);
  check_same_dtype("recurrence", a, b, where);
  check_same_device("recurrence", a, b, where);
  RINGRAD_CHECK(a.shape() == b.shape(), ShapeError, where,
                "recurrence: a and b must have one shape; got ", a.shape(), " and ", b.shape());
  const Tensor y = empty(a.shape(), {.dtype = a.dtype(), .device = a.device()}, where);
  if (y.numel() == 0) return y;
  const Tensor factors = contiguous(a, where), terms = contiguous(b, where);
  if (a.device().is_cuda())
    cuda::recurrence(factors, terms, lines, reversed, y, where);
  else
    cpu::recurrence(factors, terms, lines, reversed, y);
  return y;
}

}  // namespace ringrad::kernels
