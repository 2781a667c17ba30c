// Factors of batches of matrices: Cholesky, QR, singular values, eigenvalues.
//
// All run on CPUs, by LAPACK, in float32 or float64. Leading axes are a batch. All are
// differentiable any number of times. But gradients of singular vectors and eigenvectors are
// infinite or NaN where singular values or eigenvalues coincide, and a function of them should not
// depend on their signs, which LAPACK chooses.
//
// Papers: Murray 2016, arXiv:1602.07527 (Cholesky); Seeger et al. 2017, arXiv:1710.08717 (QR,
//         eigh); Townsend 2016, "Differentiating the singular value decomposition"

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::linalg {

/// The lower triangle y with y y^T = x. Reads x's lower triangle; the gradient is symmetric.
///
///   grad_x = sym(y^-T phi(y^T grad_y) y^-1),    phi: the lower part, with half of the diagonal
///
/// Shapes:  x (..., n, n)  ->  (..., n, n)
/// DTypes:  float32, float64
/// Saves:   the result
/// Throws:  ValueError, naming the element of the batch, unless x is positive definite; ShapeError,
///          DTypeError, DeviceError
Tensor cholesky(const Tensor& x, Where where = Where::current());

struct QrResult {
  Tensor q;  ///< (..., m, k): orthonormal columns
  Tensor r;  ///< (..., k, n): an upper triangle or trapeze
};

/// x = q r, with k = min(m, n). The diagonal of r may have any signs.
///
///   grad_x = (grad_q + q s) r^-T,    s: symmetric, with the lower part of r grad_r^T - grad_q^T q
///
/// Shapes:  x (..., m, n)
/// DTypes:  float32, float64
/// Saves:   the results
/// Throws:  ShapeError, DTypeError, DeviceError; backward throws ValueError if the first k columns
///          of x are dependent
QrResult qr(const Tensor& x, Where where = Where::current());

struct SvdResult {
  Tensor u;   ///< (..., m, k): orthonormal columns
  Tensor s;   ///< (..., k): singular values, descending
  Tensor vh;  ///< (..., k, n): orthonormal rows
};

/// x = u diag(s) vh, with k = min(m, n).
///
/// Shapes:  x (..., m, n)
/// DTypes:  float32, float64
/// Saves:   the results
/// Throws:  ValueError, naming the element of the batch, if the iteration does not converge, as for
///          NaN; ShapeError, also for k above 23169, DTypeError, DeviceError
SvdResult svd(const Tensor& x, Where where = Where::current());

struct EighResult {
  Tensor values;   ///< (..., n), ascending
  Tensor vectors;  ///< (..., n, n): column j belongs to value j
};

/// The eigenvalues and orthonormal eigenvectors v of a symmetric matrix. Reads x's lower triangle;
/// the gradient is symmetric.
///
///   grad_x = sym(v (diag(grad_values) + v^T grad_v / (values[j] - values[i])) v^T)
///
/// Shapes:  x (..., n, n)
/// DTypes:  float32, float64
/// Saves:   the results
/// Throws:  as svd; ShapeError for n above 32766
EighResult eigh(const Tensor& x, Where where = Where::current());

}  // namespace ringrad::linalg
