// Attention on tensor cores. Private to kernels/attention.

#pragma once

#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels::cuda {

/// True for 16-bit floats in heads of 8, 16, ... or 128 columns, without dropout: its random
/// numbers would take more instructions than the products.
bool fits_tensor_cores(const AttentionProblem& a, DType dtype, const AttentionDropout& dropout);

// REQUIRES: fits_tensor_cores(); the forward pass has queries; delta (B, H, T) is grad . y
void attention_on_tensor_cores(const AttentionForward& call, Where where);
void attention_backward_on_tensor_cores(const AttentionBackward& call, const Tensor& delta,
                                        Where where);

}  // namespace ringrad::kernels::cuda
