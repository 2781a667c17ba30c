// A matrix product in BLAS terms: every matrix is column-major. Private to kernels/.
//
//     a stored matrix: `columns` columns of `rows` neighbours, `leading` elements apart
//
//         leading >= rows        otherwise the library reads out of bounds
//
// To a BLAS, a row-major out (M, N) is the matrix out^T (N, M), so we ask for out^T = b^T a^T.
// Whether an operand has a BLAS description depends on its strides alone, and is decided here.
// There is none for a repeated matrix (stride 0), for overlapping rows, or without unit stride
// along either axis.

#pragma once

#include <cstdint>
#include <optional>

#include "ringrad/kernels/problem/gemm_problem.h"

namespace ringrad::kernels {

struct BlasMatrix {
  std::int64_t rows, columns;  ///< as stored
  std::int64_t leading;
  bool transposed;  ///< the product uses the transpose of the stored matrix
};

/// The (rows, columns) matrix whose element (r, c) lies at r * row_stride + c * column_stride;
/// nullopt if no leading dimension describes it. Strides of axes of extent 1 do not matter.
std::optional<BlasMatrix> blas_matrix(std::int64_t rows, std::int64_t columns,
                                      std::int64_t row_stride, std::int64_t column_stride);

struct BlasProduct {
  BlasMatrix left, right, out;  ///< out = left * right, which are b^T, a^T and out^T of the problem
  std::uint32_t alignment;  ///< in bytes, of the least aligned operand: a power of two, at most 256
};

/// nullopt if an operand has no BLAS description or the batch exceeds 2^31 - 1. bias may be null.
///
/// REQUIRES: M, N, K > 0, out_row >= N
std::optional<BlasProduct> blas_product(const GemmProblem& problem, const void* a, const void* b,
                                        const void* bias, const void* out);

}  // namespace ringrad::kernels
