// Products with at most four rows, as in generation. The other matrix is read once, in place: the
// time to read it is the limit, and packing it would read it twice. Private to matmul_cpu.cc.
//
//     columns of b contiguous (y = x W^T)         rows of b contiguous (y = x W)
//
//     W  |---- a dot product ----|  -> out[j]     b  | panel | panel |   rows of a panel, times
//        |---- a dot product ----|                   |   |   |   |   |   a[p], are added up in
//        16 at a time                                    v       v       registers

#pragma once

#include <cstdint>

#include "ringrad/kernels/problem/gemm_problem.h"

namespace ringrad::kernels::cpu {

/// Whether multiply_few_rows() takes the problem.
bool has_few_rows(const GemmProblem& problem);

/// gemm() for one such problem. The order of additions depends on K alone.
///
/// REQUIRES: has_few_rows(problem)
void multiply_few_rows(const GemmProblem& problem, const float* a, const float* b,
                       const float* bias, float* out);

}  // namespace ringrad::kernels::cpu
