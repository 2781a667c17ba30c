// threadIdx and its kin: which thread of which block a kernel runs as.
//
// Plain variables that get new values whenever another thread's turn comes: only one runs at a time.

#pragma once

#include "sim/vector_types.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;
