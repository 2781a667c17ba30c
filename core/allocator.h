// The caching allocator of the CPU: freed memory is kept for the next request of its size class.
//
// A training step asks for the same sizes again and again, and a page fresh from the system costs
// microseconds to fault in, so after the first step no memory moves between us and the system.
//
//     small  <= 1 KiB    16 classes of 64-byte steps; two free lists per thread, no lock;
//                        whole lists are exchanged with a shared pool
//     large  >  1 KiB    8 classes per power of two, so that at most 12.5 % are unused; shared, one
//                        lock; above 2 MiB in whole huge pages of 2 MiB each
//
// Every block is aligned to 64 bytes. Under AddressSanitizer nothing is cached, so that it sees
// each allocation's exact bounds and lifetime. All functions may be called from any thread, and a
// block may be freed on another thread than the one it was allocated on.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

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
inline void* allocate(std::size_t bytes, Where where = Where::current());

/// Returns a block of allocate(bytes) to the cache.
inline void deallocate(void* block, std::size_t bytes) noexcept;

AllocatorStats allocator_stats();
void reset_peak_stats();

/// Gives all cached large blocks back to the system.
void empty_cache();

/// Makes allocate() fail rather than reserve more than `bytes`; 0 means no limit.
void set_memory_limit(std::size_t bytes);

/// The same, for the library's own small objects: their operator new has no Where to pass on.
inline void* pool_allocate(std::size_t bytes);
inline void pool_deallocate(void* block, std::size_t bytes) noexcept;

// Implementation details follow: taking a small block from the thread's list and putting it back.

namespace detail {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr std::size_t kSmallLimit = 0;
#else
inline constexpr std::size_t kSmallLimit = 1024;
#endif
inline constexpr std::size_t kSmallStep = 64;
inline constexpr std::size_t kNumSmallClasses = 1024 / kSmallStep;

/// REQUIRES: 0 < bytes <= kSmallLimit
inline constexpr std::size_t small_class(std::size_t bytes) { return (bytes - 1) / kSmallStep; }
/// False for zero bytes too.
inline constexpr bool is_small(std::size_t bytes) { return bytes - 1 < kSmallLimit; }

/// Free blocks, linked through their own first bytes, so that freeing never needs memory.
struct FreeList {
  struct Block {
    Block* next;
  };
  Block* head = nullptr;
  int length = 0;

  void push(void* block) {
    head = new (block) Block{head};
    ++length;
  }
  void* pop() {
    Block* block = head;
    head = block->next;
    --length;
    // It was perhaps freed long ago: its cache line arrives until the next call.
    __builtin_prefetch(head, /*for writing=*/1);
    return block;
  }
};

/// Written by one thread only, read by allocator_stats(): no read-modify-write is needed.
struct Counter {
  std::atomic<std::int64_t> value{0};

  void add(std::int64_t amount) {
    value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::int64_t get() const { return value.load(std::memory_order_relaxed); }
};

/// A thread's free blocks of one size, in two lists: both calls work on `current` alone, and a list
/// that runs empty or full is exchanged as a whole, for `spare` or for one of the shared pool.
///
/// As it is here, empty and full at once, it sends both calls the slow way: that holds before a
/// thread's first call and after its end.
///
/// Paper: Bonwick and Adams 2001, "Magazines and Vmem", section 3.1
struct SmallBlocks {
  FreeList current, spare;
  int longest = 0;
  Counter served, returned;
};

struct ThreadCache {
  std::array<SmallBlocks, kNumSmallClasses> classes;
};
inline constinit thread_local ThreadCache thread_cache;

void* allocate_slowly(std::size_t bytes, Where where);
void deallocate_slowly(void* block, std::size_t bytes) noexcept;

}  // namespace detail

inline void* allocate(std::size_t bytes, Where where) {
  if (detail::is_small(bytes)) {
    detail::SmallBlocks& blocks = detail::thread_cache.classes[detail::small_class(bytes)];
    if (blocks.current.head) [[likely]] {
      blocks.served.add(1);
      return blocks.current.pop();
    }
  }
  return detail::allocate_slowly(bytes, where);
}

inline void deallocate(void* block, std::size_t bytes) noexcept {
  if (detail::is_small(bytes)) {
    detail::SmallBlocks& blocks = detail::thread_cache.classes[detail::small_class(bytes)];
    if (blocks.current.length < blocks.longest) [[likely]] {
      blocks.returned.add(1);
      return blocks.current.push(block);
    }
  }
  detail::deallocate_slowly(block, bytes);
}

inline void* pool_allocate(std::size_t bytes) { return allocate(bytes); }

inline void pool_deallocate(void* block, std::size_t bytes) noexcept { deallocate(block, bytes); }

}  // namespace ringrad
