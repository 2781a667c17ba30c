// The kernel behind rotary_embedding.h. Private to rotary_embedding.cc.

#pragma once

#include "ringrad/kernels/attention/rotary_embedding.h"

namespace ringrad::kernels::cuda {

void rotary_embedding(const RotaryCall& call, Where where);

}  // namespace ringrad::kernels::cuda
