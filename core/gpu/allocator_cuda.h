// The caching allocator of GPU memory.
//
// cudaMalloc and cudaFree wait for the device, so the allocator takes memory in segments, cuts them
// into blocks, and keeps both:
//
//     segment  | used 3 MiB | free 1 MiB | used 8 MiB | free 8 MiB |     20 MiB from cudaMalloc
//
// A request takes the smallest free block that holds it and splits off the rest; a freed block
// merges with free neighbours. Blocks of at most 1 MiB have their own segments of 2 MiB, so that
// small tensors do not fragment large blocks.
//
// Stream order: a block belongs to the stream that was current when it was allocated. It may be
// freed while kernels on that stream still use it, because its next use on that stream comes after
// them. Work on another stream must be announced with record_stream(); the block is then held back
// until events say that this stream is done with it. A free block is never given to another stream:
// its memory changes streams only through cudaFree, as in empty_cache().
//
// With set_cuda_caching(false), the runtime allocates and frees every block, so that a checking
// tool sees its exact bounds and lifetime. This is the default for simulated GPUs, which check
// every access. The environment variable RINGRAD_CUDA_CACHING=0 or 1 overrides the default.
//
// All functions may be called from any thread.

#pragma once

#include <cstddef>
#include <string>

#include "ringrad/core/base/allocator.h"
#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/base/scoped_value.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {

/// At least `bytes` bytes on the GPU, for use on its current stream, uninitialised, aligned to 256.
/// Returns nullptr for zero bytes.
/// Throws OutOfMemoryError, with memory_report(device), if memory is short even after the cache has
/// been emptied.
void* cuda_allocate(std::size_t bytes, Device device, Where where = Where::current());

/// Returns a block of cuda_allocate() to the cache.
void cuda_deallocate(void* block, Device device) noexcept;

/// Announces that work on `stream` uses the block. Once freed, the block is reused only after
/// `stream` has done the work that it held at that time.
void record_stream(void* block, const Stream& stream, Where where = Where::current());

/// Names, for reports, the operation whose result the block holds. Only the first call for a block
/// counts.
/// REQUIRES: `operation` is never freed
void name_block(void* block, Device device, const char* operation);

/// The functions of allocator.h, for any device.
AllocatorStats allocator_stats(Device device);
void reset_peak_stats(Device device);

/// Gives memory that no tensor uses back to the device.
void empty_cache(Device device);

/// The most bytes that the allocator takes from the device. Allocations beyond it throw
/// OutOfMemoryError.
void set_memory_limit(Device device, std::size_t bytes);

/// Whether freed blocks are kept. Blocks allocated before a change are freed under the old setting.
void set_cuda_caching(bool caching);
/// What set_cuda_caching() has set last, or else the default.
bool is_cuda_caching();

/// A report of the device's memory: the source lines that allocated the most of it, largest first.
std::string memory_report(Device device);

/// Device memory for work that is captured once and replayed at the same addresses (capture.h).
/// While a Scope lives, its thread's allocations on the device come from the pool. This memory
/// stays with the pool until the pool ends.
class PrivatePool {
 public:
  explicit PrivatePool(Device device);
  ~PrivatePool();
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  struct Scope : ScopedValue<PrivatePool*> {
    explicit Scope(PrivatePool& pool);
  };

  Device device() const { return device_; }

 private:
  Device device_;
};

}  // namespace ringrad
