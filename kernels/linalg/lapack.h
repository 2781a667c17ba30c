// LAPACK on batches of matrices in a CPU's memory. Private to autograd/linalg.
//
// LAPACK stores a matrix by columns, whereas a contiguous tensor stores it by rows. So LAPACK sees
// a tensor (..., n, m) as a batch of the transposed matrices, of m rows and n columns:
//
//     a (..., n, m)   a[.., j, i] is row i, column j
//
// Elements of the batch are split over the calling thread's OpenMP team; each is computed by one
// thread. So results do not depend on the number of threads.
//
// Functions write into their arguments. A function that may fail returns the number of the first
// element of the batch for which it failed, or -1. This header uses no kernels of other rooms:
// linalg is a library of its own (tools/package).
//
// REQUIRES, of all: tensors are contiguous, of one dtype, float32 or float64, and on a CPU; extents
// are below 2^31
//
// Manual: netlib.org/lapack/lug

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::lapack {

/// a (..., n, n): replaces a symmetric matrix by its Cholesky factor, with zeros above the
/// diagonal. Reads the lower triangle only. Fails unless the matrix is finite and positive
/// definite.
std::int64_t cholesky(const Tensor& a);

/// a (..., n, n): replaced by L and U of a = P L U, without L's diagonal of ones. pivots (..., n),
/// int32: row i was exchanged with row pivots[i] - 1. Fails if a pivot is exactly 0; the factors
/// are still right.
std::int64_t lu(const Tensor& a, const Tensor& pivots);

/// b (..., k, n): replaces the right sides by the solutions, for the factors of lu.
void solve_lu(const Tensor& factors, const Tensor& pivots, const Tensor& b);

/// a (..., n, m), m >= n: replaced by Q with orthonormal columns. r (..., n, n): becomes the upper
/// triangle R.
void qr(const Tensor& a, const Tensor& r);

/// a (..., n, m) is destroyed. u (..., k, m), s (..., k) descending, vt (..., n, k) with
/// k = min(m, n). Fails if the iteration does not converge, or on NaN.
std::int64_t svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vt);

/// a (..., n, n): replaces a symmetric matrix by its eigenvectors, as columns. Reads the lower
/// triangle only. values (..., n) ascending. Fails as svd.
std::int64_t eigh(const Tensor& a, const Tensor& values);

}  // namespace ringrad::kernels::lapack
