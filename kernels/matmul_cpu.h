// The CPU's matrix products, on plain pointers. Private to matmul.cc and the convolutions.

#pragma once

#include "core/error.h"

namespace ringrad::kernels::cpu {

/// out[n][m, :] = a[n] * b[n] for n < batch, plus the epilogue. Columns of out are neighbours.
/// Strides count elements; a batch stride of 0 uses one matrix again and again.
struct Gemm {
  std::int64_t batch, M, N, K;
  std::int64_t a_batch, a_row, a_column;
  std::int64_t b_batch, b_row, b_column;
  std::int64_t out_batch, out_row;
  bool relu = false;
};

/// bias: N values, or null. REQUIRES: batch, M, N > 0, K >= 0, and out overlaps nothing else
void gemm(const Gemm& shape, const float* a, const float* b, const float* bias, float* out,
          Where where);
void gemm(const Gemm& shape, const double* a, const double* b, const double* bias, double* out,
          Where where);

}  // namespace ringrad::kernels::cpu
