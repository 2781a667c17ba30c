// The kernels behind attention.h. Private to kernels/attention.

#pragma once

#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels::cuda {

void attention(const AttentionForward& call, Where where);
void attention_backward(const AttentionBackward& call, Where where);

}  // namespace ringrad::kernels::cuda
