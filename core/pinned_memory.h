// Pinned memory: memory of the CPU that stays in its place, so that GPUs copy from it and into it
// at the full speed of the bus, and while they compute.
//
// The system takes milliseconds to pin memory, and unpinning waits for all GPUs. So freed memory is
// kept for later requests, in blocks whose sizes are powers of two. It is unpinned only when a
// request would fail otherwise. If the caching of GPU memory is off (gpu/allocator_cuda.h), nothing
// is kept.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Uninitialised memory on cpu:0, which every GPU can use.
/// Throws OutOfMemoryError; CudaError or DeviceError without a GPU
Tensor empty_pinned(const Shape& shape, DType dtype = DType::float32,
                    Where where = Where::current());

/// x itself if it is pinned, else a pinned copy with the same strides. The process begins to use
/// `gpu` if it has not yet.
/// Throws DeviceError unless x is on a CPU and `gpu` is a GPU; OutOfMemoryError; CudaError
Tensor pin(const Tensor& x, Device gpu, Where where = Where::current());

/// Whether the address is in memory of empty_pinned() or pin().
bool is_pinned(const void* address);

}  // namespace ringrad
