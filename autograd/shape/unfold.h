// unfold: sliding windows along an axis.
//
//     x                    a b c d e
//     unfold(x, 0, 3, 1)   a b c
//                          b c d
//                          c d e

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// All windows of `size` positions along an axis, `step` apart, as a view in which windows that
/// overlap share elements.
///
///     y[.., i, .., k] = x[.., i step + k, ..]
///
/// Shapes:  x (.., N, ..)  ->  (.., (N - size) / step + 1, .., size)
/// DTypes:  all; the gradient, which sums, needs a floating dtype
/// Throws:  ShapeError for an absent axis, or unless 0 <= size <= N; ValueError unless step > 0
Tensor unfold(const Tensor& x, std::int64_t axis, std::int64_t size, std::int64_t step,
              Where where = Where::current());

}  // namespace ringrad
