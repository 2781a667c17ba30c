// Linear equations, inverses and determinants of batches of matrices, by LU factors with partial
// pivoting.
//
//     x = linalg::solve(a, b)      a x = b
//
// All run on CPUs, in float32 or float64, and are differentiable any number of times. Leading axes
// are a batch.
//
// Paper: Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
//        differentiation"

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::linalg {

/// The solution of a x = b.
///
///   grad_b = a^-T grad_x,    grad_a = -grad_b x^T
///
/// Shapes:  a (..., n, n), b (..., n, k)  ->  (..., n, k), batches broadcast; b (n)  ->  (..., n)
/// DTypes:  float32, float64, the same for both
/// Saves:   a, the result
/// Throws:  ValueError, naming the element of the batch, for a matrix with a pivot of exactly 0;
///          ShapeError, DTypeError, DeviceError
Tensor solve(const Tensor& a, const Tensor& b, Where where = Where::current());

/// The inverse y.    grad_x = -y^T grad_y y^T
///
/// Shapes:  x (..., n, n)  ->  (..., n, n)
/// DTypes:  float32, float64
/// Saves:   the result
/// Throws:  as solve
Tensor inv(const Tensor& x, Where where = Where::current());

/// The determinant.    grad_x = grad det x^-T
///
/// Shapes:  x (..., n, n)  ->  (...)
/// DTypes:  float32, float64
/// Saves:   x, the result
/// Throws:  ShapeError, DTypeError, DeviceError; backward throws ValueError for a singular matrix
Tensor det(const Tensor& x, Where where = Where::current());

struct SlogdetResult {
  Tensor sign;       ///< (...): -1, 0 or 1, without history
  Tensor logabsdet;  ///< (...): -infinity for a singular matrix
};

/// The determinant as its sign and the logarithm of its absolute value, which cannot overflow.
///
///   grad_x = grad_logabsdet x^-T
///
/// Shapes, DTypes, Saves, Throws: as det
SlogdetResult slogdet(const Tensor& x, Where where = Where::current());

/// The x of least |a x - b|; if a has more columns than rows, the x of least |x| with a x = b.
/// Computed by the QR factors of a or of its transpose.
///
/// Shapes:  a (..., m, n), b (..., m, k)  ->  (..., n, k); batches broadcast
/// DTypes:  float32, float64, the same for both
/// Saves:   as the operators that it is composed of
/// Throws:  ValueError, naming the element of the batch, for a matrix that does not have full rank,
///          within rounding; ShapeError, DTypeError, DeviceError
Tensor lstsq(const Tensor& a, const Tensor& b, Where where = Where::current());

}  // namespace ringrad::linalg
