// A matrix product in the words of a BLAS, which knows columns only. Private to kernels/.
//
//     a stored matrix: `columns` columns of `rows` neighbours, each column `leading` elements after the last
//
//         leading >= rows        or the library reads what is not there
//
// A row-major out (M, N) is to a BLAS the matrix out^T (N, M), so it is asked for out^T = b^T a^T. Whether an
// operand can be told in these words depends on its strides alone, and is decided here: a repeated matrix
// (stride 0) cannot, nor can one whose rows overlap, or one without neighbours along either axis.

#pragma once

#include <cstdint>
#include <optional>

#include "kernels/gemm_problem.h"

namespace ringrad::kernels {

struct BlasMatrix {
  std::int64_t rows, columns;  ///< as stored
  std::int64_t leading;
  bool transposed;  ///< the product takes the transpose of what is stored
};

/// The (rows, columns) matrix whose element (r, c) lies at r * row_stride + c * column_stride; nothing if
/// no leading dimension gives these places. Strides of axes of extent 1 do not matter.
std::optional<BlasMatrix> blas_matrix(std::int64_t rows, std::int64_t columns,
                                      std::int64_t row_stride, std::int64_t column_stride);

struct BlasProduct {
  BlasMatrix left, right, out;  ///< out = left * right, stored: b^T, a^T and out^T of the problem
  std::uint32_t alignment;  ///< bytes, of the operand aligned least: a power of two, at most 256
};

/// Nothing if an operand cannot be told to a BLAS, or the batch is larger than 2^31 - 1. bias may be null.
///
/// REQUIRES: M, N, K > 0, out_row >= N
std::optional<BlasProduct> blas_product(const GemmProblem& problem, const void* a, const void* b,
                                        const void* bias, const void* out);

}  // namespace ringrad::kernels
