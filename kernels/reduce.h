// Reductions: many elements become one, along any axes.
//
//     x (B, C, H, W)    sum(x, {0, 2, 3})        ->  (C,)
//                       sum(x, {0, 2, 3}, true)  ->  (1, C, 1, 1)
//
// No axes means all of them, as in NumPy; the result is then a tensor of shape (), or of ones with
// keepdim. A result keeps the order in which x's axes lie in memory: reducing a channels_last
// tensor over its batch gives a tensor with the channels innermost.
//
// Numerics: floats are added in float32 for at most 64 terms at a time, spread over many lanes,
// and these partial sums in float64; double in double; integers modulo 2^64. So the sum of ten
// million floats is as exact as a float can say, and the order of additions depends on shape and
// strides only, never on the number of threads.
//
// Cost: one pass at the speed of memory, in whatever order the axes lie, where the innermost axis
// in memory has stride 1; other tensors are copied first.

#pragma once

#include "core/tensor.h"

namespace ringrad::kernels {

/// The sum over `axes`; 0 where there is nothing to sum.
///
/// DTypes:  floats stay; integers and bool give int64
/// Throws:  ShapeError for an absent or repeated axis
Tensor sum(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// sum / number of elements; NaN where there are none.
///
/// DTypes:  floats
/// Throws:  ShapeError for an absent or repeated axis, DTypeError
Tensor mean(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
            Where where = Where::current());

/// The mean squared deviation from the mean, in two passes:
///
///   var = sum (x - mean)^2 / (n - correction)
///
/// correction 1 makes it unbiased; where n - correction is not positive the result is NaN, or
/// infinite.
///
/// DTypes:  floats
/// Throws:  ShapeError for an absent or repeated axis, DTypeError, ValueError for a negative
///          correction
Tensor var(const Tensor& x, const Shape& axes = {}, std::int64_t correction = 1,
           bool keepdim = false, Where where = Where::current());

/// The largest element; NaN if there is one among them.
///
/// DTypes:  all
/// Throws:  ShapeError for an absent or repeated axis, or if there is nothing to choose from
Tensor max(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The smallest element; otherwise as max.
Tensor min(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// x summed down to `shape`: the adjoint of broadcasting a tensor of `shape` to x's shape. x itself
/// if it has that shape.
///
/// DTypes:  as sum
/// Throws:  ShapeError unless `shape` broadcasts to x's
Tensor sum_to(const Tensor& x, const Shape& shape, Where where = Where::current());

}  // namespace ringrad::kernels
