// Matrix products by cuBLASLt. Private to kernels/.
//
// cuBLASLt is column-major; blas_product.h decides which products can be expressed for it. For each
// kind of product, the proposed algorithms are timed once and the fastest is kept.

#pragma once

#include <string>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/dtype.h"
#include "ringrad/kernels/problem/gemm_problem.h"

namespace ringrad::kernels::cublas {

/// Why cuBLASLt cannot be used; empty if it can.
const std::string& missing();

/// Computes the product on the device's current stream; bias has N values of the same dtype, or is
/// null. Returns false, having done nothing, if the strides have no BLAS description or cuBLASLt
/// has no algorithm for the product.
///
/// REQUIRES: missing() is empty; batch, M, N, K > 0
bool multiply(Device device, DType dtype, const GemmProblem& problem, const void* a, const void* b,
              const void* bias, void* out, bool tf32, Where where);

}  // namespace ringrad::kernels::cublas
