// Scans: each element of a line along an axis depends on those before it.
//
//     sum           y[i] = y[i - 1] + x[i]           y[-1] = 0
//     product       y[i] = y[i - 1] x[i]             y[-1] = 1
//     recurrence    y[i] = a[i] y[i - 1] + b[i]      y[-1] = 0
//
// If `reversed`, all go from the last element to the first. CPUs combine the elements of a line one
// after the other, floats in float64. GPUs scan tiles of a line in float32 for all floats but
// float64, in an order that the shape alone decides.
//
// Extents: a contiguous tensor is seen as (outer, n, inner), with lines of length n.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

enum class ScanOp { sum, product };

/// Shapes:  a tensor without axes is a line of one element
/// DTypes:  floats stay; integers and bool give int64
/// Throws:  ShapeError for an absent axis
Tensor scan(ScanOp op, const Tensor& x, std::int64_t axis, bool reversed,
            Where where = Where::current());

/// Shapes:  a and b equal
/// DTypes:  one floating dtype
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reversed,
                  Where where = Where::current());

/// A tensor as lines along an axis.
struct Lines {
  std::int64_t outer = 1, n = 1, inner = 1;

  constexpr std::int64_t count() const { return outer * inner; }
};

/// Throws ShapeError for an absent axis; a tensor without axes is one line.
Lines lines_along(const char* operation, const Shape& shape, std::int64_t axis, Where where);

namespace cpu {

// REQUIRES: operands are contiguous, of y's dtype, and not empty
void scan(ScanOp op, const Tensor& x, const Lines& lines, bool reversed, const Tensor& y);
void recurrence(const Tensor& a, const Tensor& b, const Lines& lines, bool reversed,
                const Tensor& y);

}  // namespace cpu

namespace cuda {

// REQUIRES: operands are contiguous, of y's dtype, and not empty
void scan(ScanOp op, const Tensor& x, const Lines& lines, bool reversed, const Tensor& y,
          Where where);
void recurrence(const Tensor& a, const Tensor& b, const Lines& lines, bool reversed,
                const Tensor& y, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
