// Medians and quantiles, by sorting.

#pragma once

#include <optional>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The middle element of each line along an axis, or of all elements; of two middle elements, the
/// lower one. NaN if any element is NaN. The whole gradient goes to the element that a stable sort
/// puts there.
///
/// Shapes:  x's shape without `axis`, or with extent 1 there if keepdim; without an axis (), or all
///          ones if keepdim
/// DTypes:  all
/// Throws:  ShapeError for an absent axis, or if there are no elements
Tensor median(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

/// The value at q of the way through each sorted line, between the two elements there; NaN if any
/// element is NaN.
///
///   y = (1 - w) low + w high,   at positions floor and ceil of q (n - 1), w the rest
///
/// Shapes:  as median
/// DTypes:  floats
/// Throws:  ValueError unless 0 <= q <= 1; ShapeError, DTypeError
Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> axis = {},
                bool keepdim = false, Where where = Where::current());

}  // namespace ringrad
