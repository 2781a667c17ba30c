#include "ringrad/autograd/linalg/matrices.h"

#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"

namespace ringrad::linalg {

void check_matrices(const char* operation, const Tensor& x, Where where) {
  const DType dtype = x.dtype(where);
  RINGRAD_CHECK(dtype == DType::float32 || dtype == DType::float64, DTypeError, where, operation,
                ": the dtype must be float32 or float64; got ", dtype);
  RINGRAD_CHECK(x.device().is_cpu(), DeviceError, where, operation,
                ": the tensor must be on a CPU, where to(x, Device(\"cpu\")) moves it; got ",
                x.device());
  RINGRAD_CHECK(x.dims() >= 2, ShapeError, where, operation,
                ": matrices must have two axes; got shape ", x.shape());
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // LAPACK's integers
  RINGRAD_CHECK(x.size(-1) <= kMost && x.size(-2) <= kMost, ShapeError, where, operation,
                ": extents must be below 2^31; got shape ", x.shape());
}

void check_square(const char* operation, const Tensor& x, Where where) {
  check_matrices(operation, x, where);
  RINGRAD_CHECK(x.size(-1) == x.size(-2), ShapeError, where, operation,
                ": matrices must be square; got shape ", x.shape());
}

Tensor by_columns(const Tensor& x, Where where) {
  const NoGradGuard guard;
  const Tensor y = empty_batch(x, {x.size(-1), x.size(-2)}, where);
  copy_(y, transposed(x), where);
  return y;
}

Tensor empty_batch(const Tensor& x, const Shape& matrix, Where where) {
  Shape shape = batch_of(x);
  for (const std::int64_t extent : matrix) shape.push_back(extent);
  return empty(shape, {.dtype = x.dtype(), .device = x.device()}, where);
}

Shape batch_of(const Tensor& x) { return Shape(std::span(x.shape().begin(), x.shape().end() - 2)); }

std::string place_in_batch(const Tensor& x, std::int64_t element) {
  if (x.dims() == 2) return "";
  Shape place = Shape::filled(x.dims() - 2, 0);
  for (int i = x.dims() - 3; i >= 0; --i) {
    place[i] = element % x.shape()[i];
    element /= x.shape()[i];
  }
  return concat(" at batch element ", place);
}

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

Tensor diagonal_matrices(const Tensor& x) {
  return unsqueeze(x, -1) * eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}

Tensor without_diagonal(const Tensor& x) {
  return where(eye(x.size(-1), {.dtype = DType::bool_, .device = x.device()}), 0, x);
}

}  // namespace ringrad::linalg
