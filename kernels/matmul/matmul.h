// Matrix product over the last two axes, for raw tensors.
//
//     out[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]   (+ bias[n], then max(., 0))
//
// Transposing costs nothing: a transposed view differs only in its strides, and the kernels read
// either order. A linear layer with weight (N, K) is matmul(x, view::transpose(weight, 0, 1)); its
// gradients are also products of views.
//
// Extents: M rows, N columns, K the summed axis; leading axes are a batch.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Operations on a product while it is still in registers.
struct MatmulEpilogue {
  Tensor bias = {};   ///< (N), or undefined for none
  bool relu = false;  ///< negative results become 0; CPUs keep NaN
};

/// The product of two matrices, or of two batches of them.
///
/// Shapes:  a (..., M, K), b (..., K, N)  ->  (..., M, N); leading axes broadcast;
///          K = 0 gives zeros
/// DTypes:  every floating dtype; 16-bit ones accumulate in float32
/// Throws:  ShapeError for fewer than two axes, different K, or batches that do not broadcast;
///          DTypeError, DeviceError unless a, b and bias agree
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulEpilogue& epilogue = {},
              Where where = Where::current());

/// The same, written into `out`.
///
/// REQUIRES: out shares no memory with a, b or bias
/// Throws:   as matmul; ShapeError or DTypeError unless out is what matmul would return
void matmul_out(const Tensor& a, const Tensor& b, const MatmulEpilogue& epilogue, const Tensor& out,
                Where where = Where::current());

namespace cuda {

/// out = a * b + bias; negative results become 0 if `relu`.
/// REQUIRES: shapes, dtypes and devices as matmul_out checks them; bias may be undefined; out is
///           contiguous and not empty
void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, bool relu, const Tensor& out,
            Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
