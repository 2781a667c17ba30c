// Matrix products: matmul, and linear, which fuses a matrix product with its bias and activation.
//
// Extents: M rows, N columns, K the summed axis.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// y[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]
///
/// Shapes:  a (..., M, K), b (..., K, N)  ->  (..., M, N); leading axes broadcast. A vector counts
///          as a row on the left and as a column on the right; the result drops that axis
/// DTypes:  every floating dtype; 16-bit ones accumulate in float32
/// Saves:   a, b
/// Throws:  ShapeError if K differs or the batches do not broadcast; DTypeError, DeviceError
Tensor matmul(const Tensor& a, const Tensor& b, Where where = Where::current());

/// y = x weight^T + bias, then max(y, 0) if relu
///
/// Shapes:  x (..., K), weight (N, K), bias (N) or undefined  ->  (..., N)
/// DTypes:  every floating dtype
/// Saves:   x, weight; y if relu
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, bool relu = false,
              Where where = Where::current());

}  // namespace ringrad
