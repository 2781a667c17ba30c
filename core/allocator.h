// The caching allocator of the CPU: freed memory is kept for the next request of its size class.
//
// A training step asks for the same sizes again and again, and a page fresh from the system costs
// microseconds to fault in, so after the first step no memory moves between us and the system.
//
//     small  <= 1 KiB    16 classes of 64-byte steps; a free list per thread, no lock;
//                        lists that grow long give half back to a shared pool
//     large  >  1 KiB    8 classes per power of two (at most 12.5 % unused); shared, one lock;
//                        from 2 MiB on, whole huge pages where the system has them
//
// Every block is aligned to 64 bytes. Under AddressSanitizer nothing is cached, so that it sees
// each allocation's exact bounds and lifetime. All functions may be called from any thread, and a
// block may be freed on another thread than the one it was allocated on.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace ringrad {

struct AllocatorStats {
  std::int64_t allocated_bytes = 0;       ///< held by live tensors and tape nodes now
  std::int64_t peak_allocated_bytes = 0;  ///< the most that large blocks held at once, since reset
  std::int64_t reserved_bytes = 0;        ///< taken from the system: allocated + cached
  std::int64_t num_allocations = 0;       ///< requests served so far
  std::int64_t num_system_allocations = 0;  ///< of those, how many had to ask the system
};

/// At least `bytes` bytes, uninitialised, aligned to 64. Zero bytes give nullptr.
/// Throws OutOfMemoryError, once the cache was given back in vain, with what is in use.
void* allocate(std::size_t bytes, Where where = Where::current());

/// Returns a block of allocate(bytes) to the cache.
void deallocate(void* block, std::size_t bytes) noexcept;

AllocatorStats allocator_stats();
void reset_peak_stats();

/// Gives all cached large blocks back to the system.
void empty_cache();

/// Makes allocate() fail rather than reserve more than `bytes`; 0 means no limit.
void set_memory_limit(std::size_t bytes);

/// The same, for the library's own small objects: their operator new has no Where to pass on.
void* pool_allocate(std::size_t bytes);
void pool_deallocate(void* block, std::size_t bytes) noexcept;

}  // namespace ringrad
