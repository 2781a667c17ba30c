#include "core/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace ringrad {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallLimit = kCaching ? 1024 : 0;
constexpr std::size_t kNumSmallClasses = 1024 / kAlignment;
constexpr std::size_t kChunkBytes = 64 * 1024;  // small blocks are carved from chunks of this size
constexpr int kBatch = 32;                      // small blocks fetched under one lock
constexpr int kLongList = 4096;                 // a thread's list longer than this gives half back
constexpr std::size_t kHugePage = 2 * 1024 * 1024;
constexpr std::size_t kNumLargeClasses = 64 * 8;

std::size_t small_class(std::size_t bytes) { return (bytes - 1) / kAlignment; }

std::int64_t small_class_bytes(std::size_t index) {
  return static_cast<std::int64_t>((index + 1) * kAlignment);
}

// Large classes: the power of two below, and which eighth of the way to the next one.
//   1025..1152 -> 1152, ..1280 -> 1280, ... ..2048 -> 2048, ..2304 -> 2304, ...
// From a huge page on, blocks are whole huge pages.
struct LargeClass {
  std::size_t index;
  std::size_t bytes;
};

LargeClass large_class(std::size_t bytes) {
  if (!kCaching) return {0, bytes};
  const auto log = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // 2^log < bytes
  const std::size_t step = std::size_t{1} << (log - 3);
  const std::size_t eighth = (bytes - 1 - (std::size_t{1} << log)) / step;
  std::size_t block_bytes = (8 + eighth + 1) * step;
  if (block_bytes >= kHugePage) block_bytes = (block_bytes + kHugePage - 1) / kHugePage * kHugePage;
  return {log * 8 + eighth, block_bytes};
}

void* system_allocate(std::size_t bytes) {
  const bool huge = kCaching && bytes >= kHugePage;
  void* block = nullptr;
  if (posix_memalign(&block, huge ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  if (huge) madvise(block, bytes, MADV_HUGEPAGE);  // a wish: without huge pages all works the same
  return block;
}

// Free blocks, linked through their own first bytes, so that freeing never needs memory.
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
    return block;
  }
};

// Written by one thread only, read by allocator_stats(): no read-modify-write is needed.
struct Counter {
  std::atomic<std::int64_t> value{0};

  void add(std::int64_t amount) {
    value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::int64_t get() const { return value.load(std::memory_order_relaxed); }
};

struct ThreadCache {
  std::array<FreeList, kNumSmallClasses> lists;
  Counter small_bytes;  // allocated minus freed here; negative where blocks of other threads die
  Counter allocations;

  ThreadCache();
  ~ThreadCache();
};

// What all threads share. Every member function REQUIRES: mutex is held.
struct SharedPool {
  std::mutex mutex;
  std::array<FreeList, kNumSmallClasses> small;
  std::array<FreeList, kNumLargeClasses> large;
  std::vector<const ThreadCache*> threads;
  std::int64_t small_bytes = 0;  // allocated minus freed outside of any living thread cache
  std::int64_t large_bytes = 0;
  std::int64_t peak_large_bytes = 0;
  std::int64_t reserved_bytes = 0;
  std::int64_t allocations = 0;
  std::int64_t system_allocations = 0;
  std::int64_t limit_bytes = 0;

  void* take_from_system(std::size_t bytes, std::size_t asked, Where where);
  void return_to_system(void* block, std::size_t bytes);
  void free_cached();
  void* allocate_large(std::size_t bytes, Where where);
  void deallocate_large(void* block, std::size_t bytes);
  void* allocate_small(std::size_t index);
  AllocatorStats stats() const;
};

// Never destroyed: tensors in static storage may outlive everything else.
SharedPool& shared_pool() {
  static SharedPool* pool = new SharedPool;
  return *pool;
}

void* SharedPool::take_from_system(std::size_t bytes, std::size_t asked, Where where) {
  const auto needed = static_cast<std::int64_t>(bytes);
  const auto attempt = [&] {
    const bool allowed = limit_bytes == 0 || needed <= limit_bytes - reserved_bytes;
    return allowed ? system_allocate(bytes) : nullptr;
  };
  void* block = attempt();
  if (!block) {
    free_cached();
    block = attempt();
  }
  RINGRAD_CHECK(block, OutOfMemoryError, where, "allocate: ", asked,
                " bytes must be available; got none with ", stats().allocated_bytes,
                " bytes in use, ", reserved_bytes, " reserved and ",
                limit_bytes ? concat("a limit of ", limit_bytes) : "no limit");
  reserved_bytes += needed;
  ++system_allocations;
  return block;
}

void SharedPool::return_to_system(void* block, std::size_t bytes) {
  std::free(block);
  reserved_bytes -= static_cast<std::int64_t>(bytes);
}

void SharedPool::free_cached() {
  for (std::size_t index = 0; index < kNumLargeClasses; ++index) {
    if (!large[index].head) continue;
    const std::size_t smallest = (std::size_t{1} << (index / 8)) / 8 * (8 + index % 8) + 1;
    const std::size_t bytes = large_class(smallest).bytes;
    while (large[index].head) return_to_system(large[index].pop(), bytes);
  }
}

void* SharedPool::allocate_large(std::size_t bytes, Where where) {
  const LargeClass size = large_class(bytes);
  FreeList& list = large[size.index];
  void* block = list.head ? list.pop() : take_from_system(size.bytes, bytes, where);
  ++allocations;
  large_bytes += static_cast<std::int64_t>(size.bytes);
  peak_large_bytes = std::max(peak_large_bytes, large_bytes);
  return block;
}

void SharedPool::deallocate_large(void* block, std::size_t bytes) {
  const LargeClass size = large_class(bytes);
  large_bytes -= static_cast<std::int64_t>(size.bytes);
  if (kCaching)
    large[size.index].push(block);
  else
    return_to_system(block, size.bytes);
}

void* SharedPool::allocate_small(std::size_t index) {
  if (!small[index].head) {
    const std::size_t bytes = (index + 1) * kAlignment;
    auto* chunk = static_cast<std::byte*>(take_from_system(kChunkBytes, bytes, Where::current()));
    for (std::size_t at = 0; at + bytes <= kChunkBytes; at += bytes) small[index].push(chunk + at);
  }
  return small[index].pop();
}

AllocatorStats SharedPool::stats() const {
  AllocatorStats stats{.allocated_bytes = small_bytes + large_bytes,
                       .peak_allocated_bytes = peak_large_bytes,
                       .reserved_bytes = reserved_bytes,
                       .num_allocations = allocations,
                       .num_system_allocations = system_allocations};
  for (const ThreadCache* thread : threads) {
    stats.allocated_bytes += thread->small_bytes.get();
    stats.num_allocations += thread->allocations.get();
  }
  return stats;
}

// Objects with thread storage may free tensors after the cache of their thread is gone; they then
// use the shared pool.
thread_local bool cache_is_gone = false;

ThreadCache& thread_cache() {
  thread_local ThreadCache cache;
  return cache;
}

ThreadCache::ThreadCache() {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  pool.threads.push_back(this);
}

ThreadCache::~ThreadCache() {
  cache_is_gone = true;
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  for (std::size_t i = 0; i < kNumSmallClasses; ++i)
    while (lists[i].head) pool.small[i].push(lists[i].pop());
  pool.small_bytes += small_bytes.get();
  pool.allocations += allocations.get();
  std::erase(pool.threads, this);
}

void refill(FreeList& list, std::size_t index) {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  list.push(pool.allocate_small(index));
  while (list.length < kBatch && pool.small[index].head) list.push(pool.small[index].pop());
}

void give_back_half(FreeList& list, std::size_t index) {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  for (int i = list.length / 2; i > 0; --i) pool.small[index].push(list.pop());
}

void* allocate_after_cache(std::size_t index) {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  void* block = pool.allocate_small(index);
  ++pool.allocations;
  pool.small_bytes += small_class_bytes(index);
  return block;
}

void deallocate_after_cache(void* block, std::size_t index) {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  pool.small[index].push(block);
  pool.small_bytes -= small_class_bytes(index);
}

void* allocate_small(std::size_t bytes) {
  const std::size_t index = small_class(bytes);
  if (cache_is_gone) [[unlikely]]
    return allocate_after_cache(index);
  ThreadCache& cache = thread_cache();
  FreeList& list = cache.lists[index];
  if (!list.head) [[unlikely]]
    refill(list, index);
  cache.allocations.add(1);
  cache.small_bytes.add(small_class_bytes(index));
  return list.pop();
}

void deallocate_small(void* block, std::size_t bytes) {
  const std::size_t index = small_class(bytes);
  if (cache_is_gone) [[unlikely]]
    return deallocate_after_cache(block, index);
  ThreadCache& cache = thread_cache();
  FreeList& list = cache.lists[index];
  cache.small_bytes.add(-small_class_bytes(index));
  list.push(block);
  if (list.length > kLongList) [[unlikely]]
    give_back_half(list, index);
}

}  // namespace

void* allocate(std::size_t bytes, Where where) {
  if (bytes == 0) return nullptr;
  if (bytes <= kSmallLimit) return allocate_small(bytes);
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  return pool.allocate_large(bytes, where);
}

void deallocate(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  if (bytes <= kSmallLimit) return deallocate_small(block, bytes);
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  pool.deallocate_large(block, bytes);
}

void* pool_allocate(std::size_t bytes) { return allocate(bytes); }

void pool_deallocate(void* block, std::size_t bytes) noexcept { deallocate(block, bytes); }

AllocatorStats allocator_stats() {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  return pool.stats();
}

void reset_peak_stats() {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  pool.peak_large_bytes = pool.large_bytes;
}

void empty_cache() {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  pool.free_cached();
}

void set_memory_limit(std::size_t bytes) {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  pool.limit_bytes = static_cast<std::int64_t>(bytes);
}

}  // namespace ringrad
