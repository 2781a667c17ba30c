// Moving bytes and tensors between devices.
//
// Copies follow the order of the current streams of both devices: work queued earlier on either
// comes first, and work queued later comes after. A copy to the CPU waits until it is done, unless
// the CPU's memory is pinned and the caller asks not to wait.
//
// A fresh copy of a tensor on another GPU need not wait for the target's earlier work, since its
// memory is new. It runs on its own stream, one for each thread and ordered pair of GPUs:
//
//     source    | makes x |         | later work, which may overwrite x
//     between             | x -> y  |
//     target    | earlier work ........... | work with y
//
// The host does not wait, so a program that places its layers on several GPUs keeps all of them
// busy.

#pragma once

#include <cstddef>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Copies `bytes` bytes between any two devices.
/// REQUIRES: the ranges do not overlap
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
                Where where);

/// The same, but does not wait for a copy to the CPU.
/// REQUIRES: the CPU's memory is pinned; until the copy is done, the caller does not free or write
/// it, nor read it if it is the destination
void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device,
                      std::size_t bytes, Where where);

/// x itself if it is on a CPU, else a copy on cpu:0 with the same strides.
Tensor to_host(const Tensor& x, Where where = Where::current());

/// x itself if it is on `device`, else a fresh copy there with the same layout.
/// REQUIRES: x is contiguous or channels_last
Tensor to_device(const Tensor& x, Device device, Where where = Where::current());

/// Uninitialised pinned CPU memory, which GPUs access without the CPU's help: copies to and from it
/// run concurrently with other work. Allocating it is slow; do it once.
/// Throws OutOfMemoryError
Tensor empty_pinned(const Shape& shape, DType dtype = DType::float32,
                    Where where = Where::current());

}  // namespace ringrad
