// The kernels behind matmul.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

/// out = a * b + bias; negative results become 0 if `relu`.
/// REQUIRES: shapes, dtypes and devices as matmul_out checks them; bias may be undefined; out is
///           contiguous and not empty
void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, bool relu, const Tensor& out,
            Where where);

}  // namespace ringrad::kernels::cuda
