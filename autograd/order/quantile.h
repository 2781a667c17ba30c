// Medians and quantiles, by sorting.

#pragma once

#include <optional>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The element in the middle of each line along an axis, or of all elements: the lower of two such;
/// NaN if any element is. The whole gradient goes to the element that a stable sort puts there.
///
/// Shapes:  x's shape without `axis`, or with extent 1 there if keepdim; without an axis (), or all
///          ones if keepdim
/// DTypes:  all
/// Throws:  ShapeError for an absent axis, or if there are no elements
Tensor median(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

/// The value at q of the way through each sorted line, between the two elements there; NaN if any
/// element is.
///
///   y = (1 - w) low + w high,   at positions floor and ceil of q (n - 1), w the rest
///
/// Shapes:  as median
/// DTypes:  floats
/// Throws:  ValueError unless 0 <= q <= 1; ShapeError, DTypeError
Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> axis = {},
                bool keepdim = false, Where where = Where::current());

}  // namespace ringrad
