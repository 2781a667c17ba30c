// The kernels behind attention.h, as a ladder: any heads; in registers; on tensor cores. Private to
// kernels/attention.

#pragma once

#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels::cuda {

void attention(const AttentionForward& call, Where where);
void attention_backward(const AttentionBackward& call, Where where);

/// True for all floats but float64, in heads of at most 128 columns.
bool fits_registers(const AttentionProblem& a, DType dtype);

// REQUIRES: fits_registers(); the forward pass has queries; delta (B, H, T) is grad . y
void attention_in_registers(const AttentionForward& call, Where where);
void attention_backward_in_registers(const AttentionBackward& call, const Tensor& delta,
                                     Where where);

/// True for 16-bit floats in heads of 8, 16, ... or 128 columns, without dropout: its random
/// numbers would take more instructions than the products.
bool fits_tensor_cores(const AttentionProblem& a, DType dtype, const AttentionDropout& dropout);

// REQUIRES: fits_tensor_cores(); the forward pass has queries; delta (B, H, T) is grad . y
void attention_on_tensor_cores(const AttentionForward& call, Where where);
void attention_backward_on_tensor_cores(const AttentionBackward& call, const Tensor& delta,
                                        Where where);

}  // namespace ringrad::kernels::cuda
