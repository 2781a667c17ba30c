// Attention in registers, without tensor cores. Private to kernels/attention.

#pragma once

#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels::cuda {

/// True for all floats but float64, in heads of at most 128 columns.
bool fits_registers(const AttentionProblem& a, DType dtype);

// REQUIRES: fits_registers(); the forward pass has queries; delta (B, H, T) is grad . y
void attention_in_registers(const AttentionForward& call, Where where);
void attention_backward_in_registers(const AttentionBackward& call, const Tensor& delta,
                                     Where where);

}  // namespace ringrad::kernels::cuda
