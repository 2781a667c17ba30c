// Reductions over any axes; kernels/reduce/reduce.h says how they are computed and how exact they
// are.
//
//     x (B, C, H, W)    sum(x, {0, 2, 3})        ->  (C,)
//                       sum(x, {0, 2, 3}, true)  ->  (1, C, 1, 1)
//
// No axes means all axes. A result keeps the order in which x's axes lie in memory. All reductions
// except any, all, argmax and argmin are differentiable any number of times. All throw ShapeError
// for an absent or repeated axis. sum_to is in broadcast.h.

#pragma once

#include <optional>

#include "ringrad/autograd/broadcast.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// The sum; 0 if there are no elements.
///
/// DTypes:  floats stay; integers and bool give int64
Tensor sum(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The sum over the number of elements; NaN if there are none.
///
/// DTypes:  floats
/// Throws:  DTypeError
Tensor mean(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
            Where where = Where::current());

/// The variance:    var = sum (x - mean)^2 / (n - correction)
///
/// correction 1 makes it unbiased; if n - correction is not positive, the result is NaN or
/// infinite.
///
/// DTypes:  floats
/// Saves:   x
/// Throws:  DTypeError, ValueError for a negative correction
Tensor var(const Tensor& x, const Shape& axes = {}, std::int64_t correction = 1,
           bool keepdim = false, Where where = Where::current());

/// The standard deviation, sqrt(var); where it is 0, its gradient is 0.
///
/// DTypes:  floats
/// Saves:   x, the result
/// Throws:  as var
Tensor stddev(const Tensor& x, const Shape& axes = {}, std::int64_t correction = 1,
              bool keepdim = false, Where where = Where::current());

/// The product; 1 if there are no elements. Its gradient multiplies the other factors instead of
/// dividing by a factor, so it is also right for factors of 0.
///
/// DTypes:  floats stay; integers and bool give int64
/// Saves:   x
Tensor prod(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
            Where where = Where::current());

/// log(sum exp x), without overflow where the result has none; -infinity if there are no elements.
///
/// DTypes:  floats
/// Saves:   x, the result
/// Throws:  DTypeError
Tensor logsumexp(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
                 Where where = Where::current());

/// The norm of the elements along the axes, as of one vector:
///
///   order p          (sum |x|^p)^(1/p), without overflow where the result has none
///   order 0          the number of elements that are not 0; its gradient is 0
///   order infinity   max |x|
///   order -infinity  min |x|; equal elements share the gradient evenly, as for infinity
///
/// Where a norm is 0, its gradient is 0, except of order 1, whose gradient is sign(x). For orders
/// below 1 the gradient of an element that is 0 is 0. Where a norm of an order above 1 is infinite,
/// even by overflow, the gradient of finite elements is 0.
///
/// DTypes:  floats
/// Saves:   x, the result
/// Throws:  DTypeError; ValueError for NaN; ShapeError if the order is infinite or negative and
///          there are no elements
Tensor vector_norm(const Tensor& x, double order = 2, const Shape& axes = {}, bool keepdim = false,
                   Where where = Where::current());

/// True if any element is not 0; false if there are none. NaN is not 0.
///
/// DTypes:  all; the result is bool and has no history
Tensor any(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// True if no element is 0; true if there are none.
Tensor all(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The largest element; NaN if any element is NaN. All elements that equal the result share the
/// gradient evenly; if the result is NaN, all NaNs share it.
///
/// DTypes:  all
/// Saves:   x, the result
/// Throws:  ShapeError if there are no elements to choose from
Tensor max(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The smallest element; otherwise as max.
Tensor min(const Tensor& x, const Shape& axes = {}, bool keepdim = false,
           Where where = Where::current());

/// The position of the largest element along `axis`, or, without an axis, its position in row-major
/// order of all elements. The first of equal elements wins, and a NaN is larger than any number.
///
/// Shapes:  x's shape without `axis`, or with extent 1 there if keepdim; without an axis (), or all
///          ones if keepdim
/// DTypes:  all; the result is int64 and has no history
/// Throws:  ShapeError if there are no elements to choose from
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

/// The same for the smallest element; a NaN is smaller than any number.
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

}  // namespace ringrad
