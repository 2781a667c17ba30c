// The CUDA runtime and launch(), for real or for simulated devices. The build's include path
// decides which; code that includes this header is the same for both.
//
//     launch({"add", blocks, threads}, add, a, b, sum, n)      the one way to start a kernel
//     RINGRAD_SHARED(float, tile, [32][33])                    float tile[32][33] in shared memory
//     RINGRAD_DYNAMIC_SHARED(float, buffer)                    float* buffer, of the launch's size

#pragma once

#include <cuda_launch.h>
#include <cuda_runtime.h>
#include <cuda_system_scope.h>
