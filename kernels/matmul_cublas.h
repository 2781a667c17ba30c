// Matrix products by cuBLASLt. Private to kernels/.
//
// cuBLASLt thinks in columns: a row-major out (M, N) is to it the matrix out^T (N, M), so it is asked for
// out^T = b^T a^T, and reads either order of a and b as it lies. For each kind of product the fastest of
// the algorithms that it proposes is found by timing them once.

#pragma once

#include <string>

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "kernels/gemm_problem.h"

namespace ringrad::kernels::cublas {

/// Why cuBLASLt cannot be used; empty if it can.
const std::string& missing();

/// The product on the device's current stream; bias has N values of the same dtype, or is null. False, with
/// nothing done, if cuBLASLt has no algorithm for it.
///
/// REQUIRES: missing() is empty; one of a_row and a_column is 1, and so for b; batch, M, N, K > 0
bool multiply(Device device, DType dtype, const GemmProblem& problem, const void* a, const void* b,
              const void* bias, void* out, bool tf32, Where where);

}  // namespace ringrad::kernels::cublas
