// Pinned memory: memory of the CPU that stays in its place, so that GPUs copy from it and into it at
// the full speed of the bus, and while they compute.
//
// The system takes milliseconds to pin memory, and unpinning waits for all GPUs. So freed memory is
// kept for later requests, in blocks whose sizes are powers of two, unless the caching of GPU memory
// is off (gpu/allocator_cuda.h).

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Uninitialised memory on cpu:0.
/// Throws OutOfMemoryError; CudaError without a GPU
Tensor empty_pinned(const Shape& shape, DType dtype = DType::float32,
                    Where where = Where::current());

/// x itself if it is pinned, else a copy that is, with the same strides.
/// Throws DeviceError unless x is on a CPU; OutOfMemoryError; CudaError without a GPU
Tensor pin(const Tensor& x, Where where = Where::current());

/// Whether the CPU's memory at this address is pinned. Without a GPU none is.
bool is_pinned(const void* memory);

}  // namespace ringrad
