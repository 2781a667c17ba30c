#include "ringrad/kernels/reduce/argmax.h"

#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels {
namespace {

Tensor find(const char* operation, bool largest, const Tensor& x, std::optional<std::int64_t> axis,
            bool keepdim, Where where) {
  Positions positions;
  Shape shape = Shape::filled(keepdim ? x.dims() : 0, 1);
  if (axis) {
    const int a = normalize_axis(operation, *axis, x.dims(), where);
    for (int i = 0; i < a; ++i) positions.outer *= x.shape()[i];
    for (int i = a + 1; i < x.dims(); ++i) positions.inner *= x.shape()[i];
    positions.extent = x.shape()[a];
    shape = x.shape();
    keepdim ? void(shape[a] = 1) : shape.erase(a);
  } else {
    positions.extent = x.numel(where);
  }
  const Tensor result = empty(shape, {.dtype = DType::int64, .device = x.device()}, where);
  RINGRAD_CHECK(positions.extent > 0 || result.numel() == 0, ShapeError, where, operation,
                ": there must be an element to choose; got shape ", x.shape());
  if (result.numel() == 0) return result;
  const Tensor input = contiguous(x, where);
  (x.device().is_cuda() ? cuda::find_extreme : cpu::find_extreme)(input, positions, largest, result,
                                                                  where);
  return result;
}

}  // namespace

Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim, Where where) {
  return find("argmax", true, x, axis, keepdim, where);
}

Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim, Where where) {
  return find("argmin", false, x, axis, keepdim, where);
}

}  // namespace ringrad::kernels
