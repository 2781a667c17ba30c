#include "ringrad/autograd/shape/diagonal.h"

#include <algorithm>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad {
namespace {

Tensor diagonal_view(const Tensor& x, std::int64_t offset, std::int64_t axis0, std::int64_t axis1,
                     Where where) {
  const int row = normalize_axis("diagonal", axis0, x.dims(where), where);
  const int column = normalize_axis("diagonal", axis1, x.dims(), where);
  RINGRAD_CHECK(row != column, ShapeError, where, "diagonal: the axes must differ; got ", axis0,
                " and ", axis1);
  Shape shape = x.shape();
  Strides strides = x.strides();
  // Offsets beyond the matrix all mean an empty diagonal.
  const std::int64_t right = std::clamp<std::int64_t>(offset, 0, shape[column]);
  const std::int64_t down = std::clamp<std::int64_t>(offset, -shape[row], 0);
  const std::int64_t length = std::min(shape[row] + down, shape[column] - right);
  const std::int64_t start = x.offset() + right * strides[column] - down * strides[row];
  const std::int64_t step = strides[row] + strides[column];
  for (const int axis : {std::max(row, column), std::min(row, column)}) {
    shape.erase(axis);
    strides.erase(axis);
  }
  shape.push_back(length);
  strides.push_back(step);
  return view::as_strided(x, shape, strides, start, where);
}

// The adjoint of diagonal: zeros of the given shape, with x on a diagonal.
Tensor embed_diagonal(const Tensor& x, const Shape& shape, std::int64_t offset, std::int64_t axis0,
                      std::int64_t axis1, Where where) {
  Tensor y = zeros(shape, {.dtype = x.dtype(), .device = x.device()}, where);
  kernels::copy_(diagonal_view(y, offset, axis0, axis1, where), x, where);
  return record_linear("embed_diagonal", where, std::move(y), x, [=](const Tensor& grad) {
    return diagonal(grad, offset, axis0, axis1, where);
  });
}

// True at (i, j) of matrices like x's where j - i <= offset, or >= if `upper`.
Tensor triangle(const char* operation, const Tensor& x, std::int64_t offset, bool upper,
                Where where) {
  RINGRAD_CHECK(x.dims(where) >= 2, ShapeError, where, operation,
                ": a matrix must have two axes; got ", x.shape());
  const std::int64_t rows = x.size(-2), columns = x.size(-1);
  const std::int64_t k = std::clamp(offset, -rows - 1, columns + 1);
  const DefaultDeviceGuard guard(x.device());
  const Tensor bound = arange(k, rows + k, 1, where);  // the last or first column of each row
  const Tensor of_row = view::unsqueeze(bound, 1, where), column = arange(columns, where);
  return upper ? ge(column, of_row, where) : le(column, of_row, where);
}

Tensor keep(const Tensor& condition, const Tensor& x, Where at) {
  return where(condition, x, zeros({}, {.dtype = x.dtype(), .device = x.device()}, at), at);
}

}  // namespace

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t axis0, std::int64_t axis1,
                Where where) {
  Tensor y = diagonal_view(x, offset, axis0, axis1, where);
  return record_linear("diagonal", where, std::move(y), x,
                       [=, shape = x.shape()](const Tensor& grad) {
                         return embed_diagonal(grad, shape, offset, axis0, axis1, where);
                       });
}

Tensor tril(const Tensor& x, std::int64_t diagonal, Where where) {
  return keep(triangle("tril", x, diagonal, false, where), x, where);
}

Tensor triu(const Tensor& x, std::int64_t diagonal, Where where) {
  return keep(triangle("triu", x, diagonal, true, where), x, where);
}

}  // namespace ringrad
