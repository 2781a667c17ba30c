// Sorting along an axis, and the best elements.
//
//     const auto [values, indices] = sort(x, -1);       values[i] = x[indices[i]]
//
// A NaN is larger than any number. Equal elements keep their order, so that results are unique.
// Values are differentiable any number of times: each value's gradient flows to the element it came
// from. Indices are int64 and have no history. All dtypes are taken. A tensor without axes counts
// as a line of one element. All functions throw ShapeError for an absent axis.

#pragma once

#include <utility>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// x with each line along an axis sorted, from small to large or the reverse; and the positions in
/// x that the values come from.
std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t axis = -1, bool descending = false,
                               Where where = Where::current());

/// The positions alone.
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false,
               Where where = Where::current());

/// The k largest elements of each line along an axis, or the smallest, in the order of sorting, and
/// their positions.
///
/// Shapes:  x (.., N, ..)  ->  both (.., k, ..)
/// Throws:  ShapeError unless 0 <= k <= N, and k is 1 for an x without axes
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1,
                               bool largest = true, Where where = Where::current());

/// The largest element along an axis and its position, the first one if there are several. The
/// whole gradient goes to that position, while max() shares it among equal elements.
///
/// Shapes:  x's shape without `axis`, or with extent 1 there if keepdim
/// Throws:  ShapeError if there are no elements to choose from
std::pair<Tensor, Tensor> max_with_indices(const Tensor& x, std::int64_t axis, bool keepdim = false,
                                           Where where = Where::current());

/// The same for the smallest element; a NaN is smaller than any number.
std::pair<Tensor, Tensor> min_with_indices(const Tensor& x, std::int64_t axis, bool keepdim = false,
                                           Where where = Where::current());

/// The number of elements of a sorted line that are below each value, or, if `right`, not above it:
/// where the value fits in. The result is int64 and has no history.
///
/// Shapes:  sorted (N), values any  ->  like values; or sorted (.., N), values (.., M)  ->  (.., M)
/// DTypes:  the same for both
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false,
                    Where where = Where::current());

}  // namespace ringrad
