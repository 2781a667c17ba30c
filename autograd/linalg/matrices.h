// What the operators of this room share: checks, and batches of matrices in LAPACK's order. Private
// to autograd/linalg.

#pragma once

#include <cstdint>
#include <string>

#include "ringrad/core/tensor.h"

namespace ringrad::linalg {

/// Throws DTypeError unless float32 or float64, DeviceError on a GPU, ShapeError without two axes.
void check_matrices(const char* operation, const Tensor& x, Where where);

/// The same, and ShapeError unless the two last extents are equal.
void check_square(const char* operation, const Tensor& x, Where where);

/// x (..., m, n) as fresh memory (..., n, m) without history: each matrix by columns.
Tensor by_columns(const Tensor& x, Where where);

/// An uninitialised tensor (batch of x..., matrix...).
Tensor empty_batch(const Tensor& x, const Shape& matrix, Where where);

/// x's leading axes.
Shape batch_of(const Tensor& x);

/// " at batch element (1, 2)", or nothing if x is one matrix.
std::string place_in_batch(const Tensor& x, std::int64_t element);

/// x (..., m, n) transposed: (..., n, m), a view.
Tensor transposed(const Tensor& x);

/// The diagonal matrices (..., n, n) of x (..., n).
Tensor diagonal_matrices(const Tensor& x);

/// x (..., n, n) with zeros on the diagonal.
Tensor without_diagonal(const Tensor& x);

}  // namespace ringrad::linalg
