// Products of tensors with other axes than matmul's: bmm, outer, tensordot. einsum.h has the
// general case.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The products of the matrices of two batches: matmul without broadcasting.
///
/// Shapes:  a (B, M, K), b (B, K, N)  ->  (B, M, N)
/// DTypes:  floats, the same for both
/// Saves:   a, b
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor bmm(const Tensor& a, const Tensor& b, Where where = Where::current());

/// y[m, n] = a[m] * b[n]
///
/// Shapes:  a (M), b (N)  ->  (M, N)
/// DTypes:  as mul
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor outer(const Tensor& a, const Tensor& b, Where where = Where::current());

/// The sum over the products of pairs of axes: a_axes[i] of a with b_axes[i] of b. The result has
/// a's other axes, then b's.
///
/// DTypes:  floats, the same for both
/// Throws:  ShapeError unless both lists have the same number of distinct axes, with the same
///          extents; DTypeError, DeviceError
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& a_axes, const Shape& b_axes,
                 Where where = Where::current());

/// The same for the last `count` axes of a and the first of b, in order.
///
/// Throws:  also ValueError for a negative count
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t count = 2,
                 Where where = Where::current());

}  // namespace ringrad
