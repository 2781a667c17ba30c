#include "ringrad/core/base/allocator.h"

#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "ringrad/core/base/locked.h"

namespace ringrad {
namespace {

using detail::FreeList;
using detail::kNumSmallClasses;
using detail::SmallBlocks;
using detail::thread_cache;
using detail::ThreadCache;

constexpr bool kCaching = detail::kSmallLimit > 0;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kChunkBytes = 64 * 1024;  // small blocks are carved from chunks of this size
constexpr int kLongest = 1024;                  // blocks that move under one lock
constexpr std::size_t kHugePage = 2 * 1024 * 1024;
constexpr std::size_t kNumLargeClasses = 64 * 8;

// The class of a large block: the power of two below its size, and the eighth of the way to the
// next one.
//   1025..1152 -> 1152, ..1280 -> 1280, ... ..2048 -> 2048, ..2304 -> 2304, ...
// From one huge page on, blocks are whole huge pages.
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
  if (huge) madvise(block, bytes, MADV_HUGEPAGE);  // only a hint: all works without huge pages
  return block;
}

// Whole lists of small blocks, stacked. The first block of each list holds its length and a link to
// the list below.
class Depot {
 public:
  bool empty() const { return !top_; }
  void put(FreeList list) {
    if (list.head) top_ = new (list.head) FirstBlock{{list.head->next}, top_, list.length};
  }
  FreeList take() {
    FirstBlock* first = std::exchange(top_, top_->below);
    return {first, first->length};
  }

 private:
  struct FirstBlock : FreeList::Block {
    FirstBlock* below;
    int length;
  };
  static_assert(sizeof(FirstBlock) <= detail::kSmallStep);

  FirstBlock* top_ = nullptr;
};

// The state that all threads share. Every member function REQUIRES: mutex is held.
struct SharedPool {
  std::mutex mutex;
  std::array<Depot, kNumSmallClasses> small;
  std::array<FreeList, kNumLargeClasses> large;
  std::vector<const ThreadCache*> threads;
  ThreadCache ended_threads;  // counters of ended caches, and of frees after their end
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
  FreeList take_small(std::size_t index, Where where);
  AllocatorStats stats() const;
};

SharedPool& shared_pool();

// A forked child has the thread that called fork() alone. So that thread holds the lock meanwhile,
// and the child computes on it alone if its parent has made tensors: libgomp would wait for the
// parent's other threads forever.
//
// A child runs handlers in the order of their registration. LLVM's libomp registers its own when it
// starts, and until they have run it holds a lock that omp_set_num_threads() takes. So OpenMP
// starts first.
SharedPool* make_pool() {
  omp_get_max_threads();
  pthread_atfork([] { shared_pool().mutex.lock(); }, [] { shared_pool().mutex.unlock(); },
                 [] {
                   const bool used = shared_pool().system_allocations > 0;
                   shared_pool().mutex.unlock();
                   if (used) omp_set_num_threads(1);
                 });
  return new SharedPool;
}

// Never destroyed: tensors in static storage may outlive everything else.
SharedPool& shared_pool() {
  static SharedPool* pool = make_pool();
  return *pool;
}

// Made when the library is loaded: the child of a process that forks while another thread makes the
// pool would wait for that thread forever.
[[maybe_unused]] const SharedPool& made_early = shared_pool();

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

// Returns at least one block.
FreeList SharedPool::take_small(std::size_t index, Where where) {
  if (!small[index].empty()) return small[index].take();
  const std::size_t bytes = (index + 1) * detail::kSmallStep;
  auto* chunk = static_cast<std::byte*>(take_from_system(kChunkBytes, bytes, where));
  FreeList list;
  for (std::size_t at = 0; at + bytes <= kChunkBytes; at += bytes) list.push(chunk + at);
  return list;
}

AllocatorStats SharedPool::stats() const {
  AllocatorStats stats{.allocated_bytes = large_bytes,
                       .peak_allocated_bytes = peak_large_bytes,
                       .reserved_bytes = reserved_bytes,
                       .num_allocations = allocations,
                       .num_system_allocations = system_allocations};
  const auto add = [&](const ThreadCache& cache) {
    for (std::size_t i = 0; i < kNumSmallClasses; ++i) {
      const std::int64_t served = cache.classes[i].served.get();
      const std::int64_t live = served - cache.classes[i].returned.get();
      stats.num_allocations += served;
      stats.allocated_bytes += live * static_cast<std::int64_t>((i + 1) * detail::kSmallStep);
    }
  };
  add(ended_threads);
  for (const ThreadCache* thread : threads) add(*thread);
  return stats;
}

// Lasts from a thread's first small block to the thread's end. Objects with thread storage may free
// tensors even later; they then use the shared pool.
class CacheLifetime {
 public:
  // Begins the cache at the first call. False if the calling thread's cache has ended.
  static bool begin() {
    thread_local bool ended = false;
    if (ended) return false;
    thread_local CacheLifetime lifetime(ended);
    return true;
  }

 private:
  explicit CacheLifetime(bool& ended);
  ~CacheLifetime();

  bool& ended_;
};

CacheLifetime::CacheLifetime(bool& ended) : ended_(ended) {
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  pool.threads.push_back(&thread_cache);
  for (SmallBlocks& blocks : thread_cache.classes) blocks.longest = kLongest;
}

CacheLifetime::~CacheLifetime() {
  ended_ = true;
  SharedPool& pool = shared_pool();
  const std::lock_guard lock(pool.mutex);
  for (std::size_t i = 0; i < kNumSmallClasses; ++i) {
    SmallBlocks& blocks = thread_cache.classes[i];
    pool.small[i].put(std::exchange(blocks.current, {}));
    pool.small[i].put(std::exchange(blocks.spare, {}));
    blocks.longest = 0;
    pool.ended_threads.classes[i].served.add(blocks.served.get());
    pool.ended_threads.classes[i].returned.add(blocks.returned.get());
  }
  std::erase(pool.threads, &thread_cache);
}

}  // namespace

namespace detail {

void* allocate_slowly(std::size_t bytes, Where where) {
  if (bytes == 0) return nullptr;
  SharedPool& pool = shared_pool();
  const bool has_cache = is_small(bytes) && CacheLifetime::begin();
  const std::lock_guard lock(pool.mutex);
  if (!is_small(bytes)) return pool.allocate_large(bytes, where);
  const std::size_t index = small_class(bytes);
  SmallBlocks& blocks = (has_cache ? thread_cache : pool.ended_threads).classes[index];
  blocks.current =
      blocks.spare.head ? std::exchange(blocks.spare, {}) : pool.take_small(index, where);
  void* block = blocks.current.pop();
  blocks.served.add(1);
  if (!has_cache) pool.small[index].put(std::exchange(blocks.current, {}));  // keep nothing
  return block;
}

void deallocate_slowly(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  SharedPool& pool = shared_pool();
  const bool has_cache = is_small(bytes) && CacheLifetime::begin();
  const std::lock_guard lock(pool.mutex);
  if (!is_small(bytes)) return pool.deallocate_large(block, bytes);
  const std::size_t index = small_class(bytes);
  SmallBlocks& blocks = (has_cache ? thread_cache : pool.ended_threads).classes[index];
  if (blocks.current.length >= blocks.longest) {
    pool.small[index].put(blocks.spare);
    blocks.spare = std::exchange(blocks.current, {});
  }
  blocks.current.push(block);
  blocks.returned.add(1);
  if (!has_cache) pool.small[index].put(std::exchange(blocks.current, {}));
}

}  // namespace detail

AllocatorStats allocator_stats() { return Locked(shared_pool())->stats(); }

void reset_peak_stats() {
  const Locked pool(shared_pool());
  pool->peak_large_bytes = pool->large_bytes;
}

void empty_cache() { Locked(shared_pool())->free_cached(); }

void set_memory_limit(std::size_t bytes) {
  Locked(shared_pool())->limit_bytes = static_cast<std::int64_t>(bytes);
}

}  // namespace ringrad
