// Where the largest or the smallest element is.

#pragma once

#include <optional>

#include "core/tensor.h"

namespace ringrad::kernels {

/// The position of the largest element along `axis`, or in row-major order of all elements without
/// one. Among equal elements the first wins, and a NaN is larger than any number.
///
/// Shapes:  x's without `axis`, or with 1 there; () without an axis, or ones with keepdim
/// DTypes:  all; the result is int64
/// Throws:  ShapeError for an absent axis, or if there is nothing to choose from
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

/// The same for the smallest element; a NaN is smaller than any number.
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

}  // namespace ringrad::kernels
