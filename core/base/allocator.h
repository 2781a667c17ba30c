// The caching allocator of the CPU: it keeps freed memory for the next request of the same size
// class.
//
// A training step requests the same sizes again and again, and the first access to a page fresh
// from the system costs microseconds. So after the first step, no memory moves between the library
// and the system.
//
//     small  <= 1 KiB    16 classes of 64-byte steps; two free lists per thread, no lock;
//                        whole lists are exchanged with a shared pool
//     large  >  1 KiB    8 classes per power of two, so that at most 12.5 % is unused; shared, one
//                        lock; above 2 MiB in whole huge pages of 2 MiB each
//
// Every block is aligned to 64 bytes. Under AddressSanitizer nothing is cached, so that it sees
// each allocation's exact bounds and lifetime. All functions may be called from any thread, and a
// thread may free a block that another thread allocated.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "ringrad/core/base/error.h"

namespace ringrad {

struct AllocatorStats {
  std::int64_t allocated_bytes = 0;         ///< held now by live tensors and tape nodes
  std::int64_t peak_allocated_bytes = 0;    ///< most bytes in large blocks at once, since reset
  std::int64_t reserved_bytes = 0;          ///< taken from the system: allocated + cached
  std::int64_t num_allocations = 0;         ///< requests served so far
  std::int64_t num_system_allocations = 0;  ///< of those, requests passed on to the system
};

/// At least `bytes` bytes, uninitialised, aligned to 64. Returns nullptr for zero bytes.
/// Throws OutOfMemoryError if memory is short even after the cache has been emptied; the message
/// says what is in use.
inline void* allocate(std::size_t bytes, Where where = Where::current());

/// Returns a block of allocate(bytes) to the cache.
inline void deallocate(void* block, std::size_t bytes) noexcept;

AllocatorStats allocator_stats();
void reset_peak_stats();

/// Gives all cached large blocks back to the system.
void empty_cache();

/// Makes allocate() fail rather than reserve more than `bytes`; 0 means no limit.
void set_memory_limit(std::size_t bytes);

/// allocate() and deallocate() for the library's own small objects, whose operator new has no Where
/// to pass on.
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
/// Also false for zero bytes.
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
    // The next block may have been freed long ago: prefetch its cache line for the next call.
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

/// A thread's free blocks of one size, in two lists. allocate() and deallocate() use `current`
/// alone. When it runs empty or full, it is swapped as a whole for `spare` or for a list of the
/// shared pool.
///
/// With the initial values the list is empty and full at once, so both calls take the slow path.
/// This holds before a thread's first call and after its end.
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
