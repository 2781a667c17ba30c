// expand and sum_to: repeating elements, and its adjoint. Each is the gradient of the other.
//
//     x (3, 1)   expand(x, {2, 3, 4})      y (2, 3, 4)       y[b, i, j] = x[i, 0]
//     y (2, 3, 4)   sum_to(y, {3, 1})      x (3, 1)          x[i, 0] = sum over b, j of y[b, i, j]

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A view of x that repeats axes of extent 1 and adds leading axes, without a copy.
///
/// Throws:  ShapeError unless x's shape broadcasts to `shape`
Tensor expand(const Tensor& x, const Shape& shape, Where where = Where::current());

/// x summed down to `shape`; x itself if it has that shape.
///
/// DTypes:  floats stay; integers and bool give int64
/// Throws:  ShapeError unless `shape` broadcasts to x's shape
Tensor sum_to(const Tensor& x, const Shape& shape, Where where = Where::current());

}  // namespace ringrad
