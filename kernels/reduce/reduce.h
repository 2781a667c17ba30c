// Reductions: combine many elements into one, along any axes.
//
//     x (B, C, H, W)    sum(x, {0, 2, 3})        ->  (C,)
//                       sum(x, {0, 2, 3}, true)  ->  (1, C, 1, 1)
//
// No axes means all of them, as in NumPy; the result then has shape (), or all ones with keepdim. A
// result keeps the memory order of x's axes: reducing a channels_last tensor over its batch gives a
// tensor with the channels innermost.
//
// Numerics: floats are added in float32, at most 64 at a time, spread over many lanes; these
// partial sums are added in float64. Squares are formed in float64. Doubles are added in double,
// integers modulo 2^64. So the sum of ten million floats is as exact as a float can represent. The
// order of additions depends only on shape and strides, never on the number of threads.
//
// Cost: one pass at memory bandwidth, in any order of the axes, if the innermost axis in memory has
// stride 1; other tensors are copied first.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// The sum over `axes`; 0 if there are no elements.
///
/// DTypes:  floats stay; integers and bool give int64
/// Throws:  ShapeError for an absent or repeated axis
Tensor sum(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// sum / number of elements; NaN if there are none.
///
/// DTypes:  floats
/// Throws:  ShapeError for an absent or repeated axis, DTypeError
Tensor mean(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
            Where where = Where::current());

/// The mean squared deviation from the mean, in two passes:
///
///   var = sum (x - mean)^2 / (n - correction)
///
/// correction 1 makes it unbiased. If n - correction is not positive, the result is NaN or
/// infinite.
///
/// DTypes:  floats
/// Throws:  ShapeError for an absent or repeated axis, DTypeError, ValueError for a negative
///          correction
Tensor var(const Tensor& x, const Shape& axes = {}, std::int64_t correction = 1,
           bool keepdim = false, Where where = Where::current());

/// The standard deviation, sqrt(var). Squares do not overflow unless the result does.
///
/// DTypes:  floats
/// Throws:  as var
Tensor stddev(const Tensor& x, const Shape& axes = {}, std::int64_t correction = 1,
              bool keepdim = false, Where where = Where::current());

/// The product; 1 if there are no elements. Factors are multiplied in float64.
///
/// DTypes:  floats stay; integers and bool give int64
/// Throws:  ShapeError for an absent or repeated axis
Tensor prod(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
            Where where = Where::current());

/// The Euclidean norm, sqrt(sum x^2); 0 if there are no elements. Squares do not overflow unless
/// the result does. Takes one pass, unless x is float64.
///
/// DTypes:  floats
/// Throws:  ShapeError for an absent or repeated axis, DTypeError
Tensor norm(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
            Where where = Where::current());

/// The largest element; NaN if any element is NaN.
///
/// DTypes:  all
/// Throws:  ShapeError for an absent or repeated axis, or if there are no elements to choose from
Tensor max(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The smallest element; otherwise like max.
Tensor min(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// x summed to `shape`: the adjoint of broadcasting a tensor of `shape` to x's shape. Returns x
/// itself if it has that shape.
///
/// DTypes:  as sum
/// Throws:  ShapeError unless `shape` broadcasts to x's shape
Tensor sum_to(const Tensor& x, const Shape& shape, Where where = Where::current());

}  // namespace ringrad::kernels
