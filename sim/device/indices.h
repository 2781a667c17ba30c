// threadIdx and its relatives: the thread and block that a kernel runs as.
//
// They are plain variables, set at each switch of threads: only one thread runs at a time.

#pragma once

#include "ringrad/sim/device/vector_types.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;
