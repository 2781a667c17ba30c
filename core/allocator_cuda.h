// The caching allocator of a GPU's memory.
//
// cudaMalloc and cudaFree wait for the device, so memory is taken in segments, cut into blocks, and kept:
//
//     segment  | used 3 MiB | free 1 MiB | used 8 MiB | free 8 MiB |     20 MiB from cudaMalloc
//
// A request takes the smallest free block that holds it and splits off the rest; a freed block merges
// with free neighbours. Blocks of at most 1 MiB have segments of 2 MiB to themselves, so that small
// tensors do not nibble at large blocks.
//
// Stream order: a block belongs to the stream that was current when it was allocated, and may be
// freed while kernels on that stream still use it: whoever gets it next on that stream comes after
// them. Work on another stream must be announced with record_stream(); then the block is kept back
// until events say that this stream is done with it.
//
// With set_cuda_caching(false) every block is allocated and freed by the runtime, so that a checking
// tool sees its exact bounds and lifetime. This is the default for simulated GPUs, which check every
// access, and RINGRAD_CUDA_CACHING=0 or 1 says it from outside.
//
// All functions may be called from any thread.

#pragma once

#include <cstddef>
#include <string>

#include "core/allocator.h"
#include "core/device.h"
#include "core/error.h"
#include "core/stream.h"

namespace ringrad {

/// At least `bytes` bytes on the GPU, for use on its current stream, uninitialised, aligned to 256.
/// Zero bytes give nullptr.
/// Throws OutOfMemoryError, once the cache was given back in vain, with memory_report(device).
void* cuda_allocate(std::size_t bytes, Device device, Where where = Where::current());

/// Gives a block of cuda_allocate back.
void cuda_deallocate(void* block, Device device) noexcept;

/// Work on `stream` uses the block: it is not handed out again before what `stream` holds when the
/// block is freed is done.
void record_stream(void* block, const Stream& stream, Where where = Where::current());

/// Says in reports which operation's result the block holds; the first to say so counts.
/// REQUIRES: `operation` lives for ever
void name_block(void* block, Device device, const char* operation);

/// What allocator.h has for a CPU, for any device.
AllocatorStats allocator_stats(Device device);
void reset_peak_stats(Device device);

void empty_cache(Device device);

void set_memory_limit(Device device, std::size_t bytes);

/// Whether freed blocks are kept. Blocks allocated before the change keep what held for them.
void set_cuda_caching(bool caching);

/// Who holds the device's memory: the lines that allocated the most of it, largest first.
std::string memory_report(Device device);

/// While it lives, what this thread allocates on the device comes from memory of its own, which
/// stays where it is until the last copy of `pool` is gone: for work that is captured once and
/// replayed at the same addresses (capture.h).
class PrivatePool {
 public:
  explicit PrivatePool(Device device);
  ~PrivatePool();
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  class Scope {
   public:
    explicit Scope(PrivatePool& pool);
    ~Scope();

   private:
    PrivatePool* before_;
  };

  Device device() const { return device_; }

 private:
  Device device_;
};

}  // namespace ringrad
