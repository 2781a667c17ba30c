// Moving bytes and tensors between devices.
//
// Copies follow the order of the current streams of both devices: work queued earlier on either
// comes first, and work queued later comes after. A copy to the CPU waits until it is done. A copy
// from the CPU waits until the CPU's memory has been read. Neither waits if that memory is pinned
// and the caller asks not to wait.
//
// A fresh copy on a GPU, of a tensor on another GPU or in pinned memory, need not wait for the
// target's earlier work, since its memory is new. It runs on its own stream, one for each thread
// and ordered pair of devices:
//
//     source    | makes x |         | later work, which may overwrite x
//     between             | x -> y  |
//     target    | earlier work ........... | work with y
//
// The host does not wait for a copy between GPUs, so a program that places its layers on several
// GPUs keeps all of them busy.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Copies `bytes` bytes between any two devices.
/// REQUIRES: the ranges do not overlap
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
                Where where);

/// The same, but does not wait.
/// REQUIRES: the CPU's memory is pinned; until the copy is done, the caller does not free or write
/// it, nor read it if it is the destination
void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device,
                      std::size_t bytes, Where where);

/// The number of elements from x's first to its last in memory, gaps included.
std::int64_t span_in_memory(const Tensor& x);

/// x itself if it is on a CPU, else a copy on cpu:0 with the same strides.
Tensor to_host(const Tensor& x, Where where = Where::current());

/// x itself if it is on `device`, else a fresh copy there with the same layout. A copy from pinned
/// memory (pinned_memory.h) runs beside what the GPU computes.
/// REQUIRES: x is contiguous or channels_last
Tensor to_device(const Tensor& x, Device device, Where where = Where::current());

}  // namespace ringrad
