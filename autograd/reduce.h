// Reductions over any axes; kernels/reduce.h tells how they are computed and how exact they are.
//
//     x (B, C, H, W)    sum(x, {0, 2, 3})        ->  (C,)
//                       sum(x, {0, 2, 3}, true)  ->  (1, C, 1, 1)
//
// No axes means all of them. A result keeps the order in which x's axes lie in memory. All are
// differentiable any number of times, but for argmax and argmin. All throw ShapeError for an absent
// or repeated axis. sum_to is in broadcast.h.

#pragma once

#include <optional>

#include "autograd/broadcast.h"
#include "core/tensor.h"

namespace ringrad {

/// The sum; 0 where there is nothing to sum.
///
/// DTypes:  floats stay; integers and bool give int64
Tensor sum(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The sum over the number of elements; NaN where there are none.
///
/// DTypes:  floats
/// Throws:  DTypeError
Tensor mean(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
            Where where = Where::current());

/// The variance:    var = sum (x - mean)^2 / (n - correction)
///
/// correction 1 makes it unbiased; where n - correction is not positive the result is NaN, or
/// infinite.
///
/// DTypes:  floats
/// Saves:   x
/// Throws:  DTypeError, ValueError for a negative correction
Tensor var(const Tensor& x, const Shape& axes = {}, std::int64_t correction = 1,
           bool keepdim = false, Where where = Where::current());

/// The largest element; NaN if there is one among them. The gradient is shared evenly by all
/// elements that equal the result, and is 0 for a NaN.
///
/// DTypes:  all
/// Saves:   x, the result
/// Throws:  ShapeError if there is nothing to choose from
Tensor max(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The smallest element; otherwise as max.
Tensor min(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The position of the largest element along `axis`, or in row-major order of all elements without
/// one. The first of equals wins, and a NaN is larger than any number.
///
/// Shapes:  x's without `axis`, or with 1 there; () without an axis, or ones with keepdim
/// DTypes:  all; the result is int64 and has no history
/// Throws:  ShapeError if there is nothing to choose from
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

/// The same for the smallest element; a NaN is smaller than any number.
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

}  // namespace ringrad
