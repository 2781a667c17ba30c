#include "ringrad/autograd/matmul/contraction.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"

namespace ringrad {
namespace {

// The axes outside of a mask, in order.
Shape others(int dims, unsigned mask) {
  Shape axes;
  for (int i = 0; i < dims; ++i)
    if (!(mask >> i & 1u)) axes.push_back(i);
  return axes;
}

Shape joined(Shape a, const Shape& b) {
  for (const std::int64_t value : b) a.push_back(value);
  return a;
}

Shape extents(const Tensor& x, const Shape& axes) {
  Shape shape;
  for (const std::int64_t axis : axes) shape.push_back(x.shape()[static_cast<int>(axis)]);
  return shape;
}

// axes_mask() takes no axes as all.
unsigned mask_of(const Shape& axes, int dims, Where where) {
  return axes.empty() ? 0 : axes_mask("tensordot", axes, dims, where);
}

Shape normalized(Shape axes, int dims, Where where) {
  for (std::int64_t& axis : axes) axis = normalize_axis("tensordot", axis, dims, where);
  return axes;
}

}  // namespace

Tensor bmm(const Tensor& a, const Tensor& b, Where where) {
  RINGRAD_CHECK(a.dims(where) == 3 && b.dims(where) == 3 && a.shape()[0] == b.shape()[0],
                ShapeError, where, "bmm: both sides must be (B, rows, columns) with one B; got ",
                a.shape(), " and ", b.shape(where));
  return matmul(a, b, where);
}

Tensor outer(const Tensor& a, const Tensor& b, Where where) {
  RINGRAD_CHECK(a.dims(where) == 1 && b.dims(where) == 1, ShapeError, where,
                "outer: both sides must have one axis; got ", a.shape(), " and ", b.shape(where));
  return mul(unsqueeze(a, 1, where), unsqueeze(b, 0, where), where);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& a_axes, const Shape& b_axes,
                 Where where) {
  const Shape a_summed = normalized(a_axes, a.dims(where), where);
  const Shape b_summed = normalized(b_axes, b.dims(where), where);
  const Shape rows = others(a.dims(), mask_of(a_axes, a.dims(), where));
  const Shape columns = others(b.dims(), mask_of(b_axes, b.dims(), where));
  RINGRAD_CHECK(extents(a, a_summed) == extents(b, b_summed), ShapeError, where,
                "tensordot: paired axes must have the same extents; got axes ", a_axes, " of ",
                a.shape(), " and ", b_axes, " of ", b.shape());
  RINGRAD_CHECK(rows.size() + columns.size() <= kMaxDims, ShapeError, where,
                "tensordot: the result must have at most ", kMaxDims, " axes; got ", a.shape(),
                " and ", b.shape());
  const Shape row_extents = extents(a, rows), column_extents = extents(b, columns);
  const std::int64_t M = row_extents.numel(), N = column_extents.numel();
  const std::int64_t K = extents(a, a_summed).numel();
  const Tensor left = reshape(permute(a, joined(rows, a_summed), where), {M, K}, where);
  const Tensor right = reshape(permute(b, joined(b_summed, columns), where), {K, N}, where);
  return reshape(matmul(left, right, where), joined(row_extents, column_extents), where);
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t count, Where where) {
  RINGRAD_CHECK(count >= 0, ValueError, where,
                "tensordot: the number of axes must not be negative; got ", count);
  RINGRAD_CHECK(count <= a.dims(where) && count <= b.dims(where), ShapeError, where,
                "tensordot: both sides must have at least ", count, " axes; got ", a.shape(),
                " and ", b.shape(where));
  Shape last, first;
  for (int i = 0; i < count; ++i) {
    last.push_back(a.dims() - count + i);
    first.push_back(i);
  }
  return tensordot(a, b, last, first, where);
}

}  // namespace ringrad
