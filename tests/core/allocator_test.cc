// Blocks are filled with a pattern of their own and checked before they are freed. If two blocks
// overlapped, or a free list were written through a live block, a pattern would be broken.

#include "ringrad/core/base/allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

constexpr std::size_t kMiB = 1 << 20;

struct Block {
  std::byte* data;
  std::size_t bytes;
  std::byte pattern;

  Block(std::size_t bytes, int pattern)
      : data(static_cast<std::byte*>(allocate(bytes))),
        bytes(bytes),
        pattern(std::byte(pattern & 0xff)) {
    std::memset(data, pattern & 0xff, bytes);
  }
  void free() {
    // All bytes are equal if the block equals itself moved by one.
    ASSERT_TRUE(data[0] == pattern && std::memcmp(data, data + 1, bytes - 1) == 0) << bytes;
    deallocate(data, bytes);
  }
};

std::vector<std::size_t> interesting_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t power = 1; power <= 8 * kMiB; power *= 2)
    for (const std::size_t size :
         {power - 1, power, power + 1, power + power / 8, power + power / 8 + 1})
      if (size > 0) sizes.push_back(size);
  return sizes;
}

TEST(AllocatorTest, BlocksAreAlignedAndSeparate) {
  std::vector<Block> blocks;
  for (const std::size_t size : interesting_sizes()) {
    blocks.emplace_back(size, static_cast<int>(blocks.size()));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().data) % 64, 0u) << size;
  }
  for (Block& block : blocks) block.free();
}

TEST(AllocatorTest, ZeroBytesAreNoBlock) {
  EXPECT_EQ(allocate(0), nullptr);
  deallocate(nullptr, 0);
}

TEST(AllocatorTest, ReusesAFreedBlockOfTheSameClass) {
  if (!kCaching) GTEST_SKIP() << "nothing is cached under AddressSanitizer";
  for (const auto& [size, same_class] : {std::pair<std::size_t, std::size_t>{1, 64},
                                         {1000, 1024},
                                         {5 * 1024 - 100, 5 * 1024},
                                         {kMiB - 1, kMiB}}) {
    void* first = allocate(size);
    deallocate(first, size);
    const auto before = allocator_stats().num_system_allocations;
    void* second = allocate(same_class);
    EXPECT_EQ(first, second) << size;
    EXPECT_EQ(allocator_stats().num_system_allocations, before) << size;
    deallocate(second, same_class);
  }
}

TEST(AllocatorTest, WastesAtMostAnEighthOfALargeBlock) {
  if (!kCaching) GTEST_SKIP() << "blocks are exact under AddressSanitizer";
  for (std::size_t size = 1025; size < 2 * kMiB; size += size / 7) {
    const auto before = allocator_stats().allocated_bytes;
    void* block = allocate(size);
    const auto taken = static_cast<std::size_t>(allocator_stats().allocated_bytes - before);
    EXPECT_GE(taken, size);
    EXPECT_LE(taken, size + size / 8) << size;
    deallocate(block, size);
  }
}

TEST(AllocatorTest, StatisticsReturnToWhereTheyWere) {
  const AllocatorStats before = allocator_stats();
  std::vector<Block> blocks;
  for (const std::size_t size : {100u, 100u, 5000u, 3000000u}) blocks.emplace_back(size, 1);
  const AllocatorStats during = allocator_stats();
  EXPECT_GE(during.allocated_bytes - before.allocated_bytes, 3005200);
  EXPECT_EQ(during.num_allocations - before.num_allocations, 4);
  EXPECT_GE(during.reserved_bytes, during.allocated_bytes);
  for (Block& block : blocks) block.free();
  EXPECT_EQ(allocator_stats().allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(allocator_stats().num_allocations, during.num_allocations);
}

TEST(AllocatorTest, PeakIsTheMostHeldAtOnce) {
  reset_peak_stats();
  const auto base = allocator_stats().peak_allocated_bytes;
  for (int i = 0; i < 3; ++i) {
    void* a = allocate(kMiB);
    void* b = allocate(kMiB);
    deallocate(a, kMiB);
    deallocate(b, kMiB);
  }
  EXPECT_EQ(allocator_stats().peak_allocated_bytes - base, static_cast<std::int64_t>(2 * kMiB));
  reset_peak_stats();
  EXPECT_EQ(allocator_stats().peak_allocated_bytes, base);
}

TEST(AllocatorTest, EmptyCacheGivesLargeBlocksBack) {
  empty_cache();
  const auto before = allocator_stats().reserved_bytes;
  for (const std::size_t size : interesting_sizes())
    if (size > 1024) Block(size, 1).free();
  EXPECT_EQ(allocator_stats().reserved_bytes > before, kCaching);
  empty_cache();
  EXPECT_EQ(allocator_stats().reserved_bytes, before);
}

// Restores the limit even if a test fails.
struct MemoryLimit {
  explicit MemoryLimit(std::size_t bytes) { set_memory_limit(bytes); }
  ~MemoryLimit() { set_memory_limit(0); }
};

TEST(AllocatorTest, FailsBeyondTheLimitAndRecovers) {
  empty_cache();
  const auto reserved = static_cast<std::size_t>(allocator_stats().reserved_bytes);
  const MemoryLimit limit(reserved + 4 * kMiB);
  void* fits = allocate(3 * kMiB);
  expect_throws<OutOfMemoryError>(
      [] { allocate(4 * kMiB); },
      concat("allocate: ", 4 * kMiB, " bytes must be available; got none with "));
  expect_throws<OutOfMemoryError>([] { allocate(4 * kMiB); },
                                  concat("and a limit of ", reserved + 4 * kMiB));
  deallocate(fits, 3 * kMiB);
  // The cached 3 MiB are in the way; the allocator gives them back rather than failing.
  void* now_fits = nullptr;
  EXPECT_NO_THROW(now_fits = allocate(4 * kMiB));
  deallocate(now_fits, 4 * kMiB);
}

TEST(AllocatorTest, TheLimitHoldsForSmallBlocksToo) {
  empty_cache();
  std::vector<void*> blocks;
  const auto count = [&] {
    const MemoryLimit limit(static_cast<std::size_t>(allocator_stats().reserved_bytes) + kMiB);
    for (int i = 0; i < 100'000; ++i) blocks.push_back(allocate(1024));
  };
  EXPECT_THROW(count(), OutOfMemoryError);
  EXPECT_LE(blocks.size(), 1024u + 64u + 4096u);  // the limit, a chunk, and cached blocks
  for (void* block : blocks) deallocate(block, 1024);
}

TEST(AllocatorTest, FailsOnWhatNoMachineHas) {
  const auto before = allocator_stats();
  expect_throws<OutOfMemoryError>([] { allocate(std::size_t{1} << 62); }, "and no limit");
  expect_throws<OutOfMemoryError>([] { allocate((std::size_t{1} << 63) - 1); }, "and no limit");
  EXPECT_EQ(allocator_stats().allocated_bytes, before.allocated_bytes);
}

TEST(AllocatorTest, BlocksMayDieOnAnotherThread) {
  const auto before = allocator_stats().allocated_bytes;
  std::vector<Block> blocks;
  for (int i = 0; i < 10'000; ++i) blocks.emplace_back(1 + static_cast<std::size_t>(i) % 2000, i);
  std::thread([&] {
    for (Block& block : blocks) block.free();
  }).join();
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

// One thread allocates and another, which stays alive, frees. The blocks that it collects must flow
// back, so that after the first rounds the allocator asks the system for nothing more.
TEST(AllocatorTest, MemoryFlowsBackFromAThreadThatOnlyFrees) {
  if (!kCaching) GTEST_SKIP() << "nothing is cached under AddressSanitizer";
  constexpr int kRounds = 10;
  std::vector<void*> blocks;
  std::binary_semaphore allocated(0), freed(0);
  std::thread consumer([&] {
    for (int round = 0; round < kRounds; ++round) {
      allocated.acquire();
      for (void* block : blocks) deallocate(block, 128);
      blocks.clear();
      freed.release();
    }
  });
  std::int64_t reserved_early = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 20'000; ++i) blocks.push_back(allocate(128));
    allocated.release();
    freed.acquire();
    if (round == 2) reserved_early = allocator_stats().reserved_bytes;
  }
  consumer.join();
  EXPECT_EQ(allocator_stats().reserved_bytes, reserved_early);
}

TEST(AllocatorTest, StatisticsSurviveTheirThread) {
  const AllocatorStats before = allocator_stats();
  Block block(1, 0);
  std::thread([&] { block = (block.free(), Block(500, 3)); }).join();
  const AllocatorStats after = allocator_stats();
  EXPECT_EQ(after.num_allocations - before.num_allocations, 2);
  EXPECT_GE(after.allocated_bytes - before.allocated_bytes, 500);
  block.free();
  EXPECT_EQ(allocator_stats().allocated_bytes, before.allocated_bytes);
}

TEST(AllocatorTest, ManyThreadsExchangeBlocks) {
  const auto before = allocator_stats().allocated_bytes;
  std::mutex mutex;
  std::vector<Block> shared;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Generator generator(static_cast<std::uint64_t>(t));
      for (int i = 0; i < 2000; ++i) {
        Block mine(1 + generator.below(generator.below(10) ? 900 : 100'000), t * 31 + i);
        std::unique_lock lock(mutex);
        shared.push_back(mine);
        std::swap(shared.back(), shared[generator.below(shared.size())]);
        if (shared.size() < 50) continue;
        Block other = shared.back();
        shared.pop_back();
        lock.unlock();
        other.free();
      }
    });
  for (auto& thread : threads) thread.join();
  for (Block& block : shared) block.free();
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

// Objects with thread storage are destroyed in reverse order of construction. This object is
// constructed before the thread's first allocation, so it outlives the thread's cache.
struct OutlivesTheCache {
  void* kept = nullptr;
  ~OutlivesTheCache() {
    deallocate(kept, 64);
    void* late = allocate(64);
    std::memset(late, 1, 64);
    deallocate(late, 64);
  }
};

TEST(AllocatorTest, WorksWhileAThreadEnds) {
  const auto before = allocator_stats().allocated_bytes;
  std::thread([] {
    thread_local OutlivesTheCache last;
    last.kept = nullptr;  // constructs it
    last.kept = allocate(64);
  }).join();
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

}  // namespace
}  // namespace ringrad
