// The CPU matrix products, on plain pointers. Private to matmul.cc and the convolutions.

#pragma once

#include "ringrad/core/base/error.h"
#include "ringrad/kernels/problem/gemm_problem.h"

namespace ringrad::kernels::cpu {

/// bias: N values, or null. REQUIRES: batch, M, N > 0, K >= 0, out overlaps no operand
void gemm(const GemmProblem& problem, const float* a, const float* b, const float* bias, float* out,
          Where where);
void gemm(const GemmProblem& problem, const double* a, const double* b, const double* bias,
          double* out, Where where);

// Those of a library that has oneDNN (matmul_onednn_cpu.cc).
namespace onednn {

/// False for matrices whose axes overlap, as those of windows.
bool can_describe(const GemmProblem& problem);
/// REQUIRES: can_describe(problem)
void gemm(const GemmProblem& problem, const float* a, const float* b, const float* bias, float* out,
          Where where);

}  // namespace onednn

/// Whether multiply_few_rows() takes the problem (few_rows_cpu.cc).
bool has_few_rows(const GemmProblem& problem);

/// gemm() for one such problem. The order of additions depends on K alone.
///
/// REQUIRES: has_few_rows(problem)
void multiply_few_rows(const GemmProblem& problem, const float* a, const float* b,
                       const float* bias, float* out);

}  // namespace ringrad::kernels::cpu
