// Moving bytes and tensors between devices.
//
// Copies are in the order of the current streams of the devices they touch: what was queued before
// on either comes first, and what is queued later comes after. A copy to the CPU waits until it is
// done, unless the CPU's memory is pinned and the caller asks not to wait.
//
// A fresh copy of a tensor on another GPU does not come after the target's earlier work, since its
// memory is new to it. It has a stream of its own, one for each thread and ordered pair of GPUs:
//
//     source    | makes x |         | later work, which may overwrite x
//     between             | x -> y  |
//     target    | earlier work ........... | work with y
//
// No host waits, so a program that puts its layers on several GPUs keeps all of them at work.

#pragma once

#include <cstddef>

#include "core/tensor.h"

namespace ringrad {

/// Copies `bytes` bytes between any two devices.
/// REQUIRES: the ranges do not overlap
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
                Where where);

/// The same without waiting for a copy to the CPU. REQUIRES: the CPU's memory is pinned; it is
/// neither freed nor, unless it is read by the copy alone, touched before the copy is done
void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device,
                      std::size_t bytes, Where where);

/// x itself if it is on a CPU, else a copy on cpu:0, with the same strides.
Tensor to_host(const Tensor& x, Where where = Where::current());

/// x itself if it is there, else a fresh copy on `device`, of the same layout.
/// REQUIRES: x is contiguous or channels_last
Tensor to_device(const Tensor& x, Device device, Where where = Where::current());

/// Uninitialised memory of the CPU that GPUs can reach without help of the CPU: copies from and to it
/// run beside everything else. Takes long to make; make it once.
/// Throws OutOfMemoryError
Tensor empty_pinned(const Shape& shape, DType dtype = DType::float32,
                    Where where = Where::current());

}  // namespace ringrad
