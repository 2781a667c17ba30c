// Sizes and strides of a matrix product, as every GEMM takes them. Private to kernels/.

#pragma once

#include <cstdint>

namespace ringrad::kernels {

/// out[n][m, :] = a[n] * b[n] for n < batch, plus the epilogue. Columns of out are neighbours.
/// Strides count elements; a batch stride of 0 reuses one matrix for the whole batch.
struct GemmProblem {
  std::int64_t batch, M, N, K;
  std::int64_t a_batch, a_row, a_column;
  std::int64_t b_batch, b_row, b_column;
  std::int64_t out_batch, out_row;
  bool relu = false;
};

}  // namespace ringrad::kernels
