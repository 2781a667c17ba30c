// Matrix products by cuBLASLt. Private to kernels/.
//
// cuBLASLt thinks in columns; blas_product.h tells which products can be put so to it. For each kind of product
// the fastest of the algorithms that it proposes is found by timing them once.

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
/// nothing done, if the strides are not a BLAS's or cuBLASLt has no algorithm for it.
///
/// REQUIRES: missing() is empty; batch, M, N, K > 0
bool multiply(Device device, DType dtype, const GemmProblem& problem, const void* a, const void* b,
              const void* bias, void* out, bool tf32, Where where);

}  // namespace ringrad::kernels::cublas
