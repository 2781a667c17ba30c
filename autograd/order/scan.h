// Running sums and products along an axis.
//
//     x          1 2 3 4
//     cumsum     1 3 6 10
//     cumprod    1 2 6 24

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// y[i] = x[0] + ... + x[i] along an axis. kernels/order/scan.h says in which order is added.
///
/// DTypes:  floats stay; integers and bool give int64
/// Throws:  ShapeError for an absent axis
Tensor cumsum(const Tensor& x, std::int64_t axis, Where where = Where::current());

/// y[i] = x[0] ... x[i] along an axis. The gradient is exact at zeros of x: it never divides.
///
/// DTypes:  as cumsum
/// Saves:   x
/// Throws:  ShapeError for an absent axis
Tensor cumprod(const Tensor& x, std::int64_t axis, Where where = Where::current());

}  // namespace ringrad
