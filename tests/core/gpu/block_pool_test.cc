#include "ringrad/core/gpu/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

constexpr std::size_t kRest = 512;
const PoolKey kPool{nullptr, nullptr, true};

std::byte* address(std::size_t at) { return reinterpret_cast<std::byte*>(at); }

Block segment(std::size_t at, std::size_t bytes, PoolKey pool = kPool) {
  return {.pool = pool, .address = address(at), .bytes = bytes};
}

TEST(BlockPoolTest, TakesTheSmallestBlockThatHoldsTheRequest) {
  BlockPool pool;
  for (const std::size_t kib : {8, 2, 4})
    pool.release(pool.add(segment(kib << 20, kib << 10), kib << 10, kRest));
  EXPECT_EQ(pool.take(kPool, 3 << 10, kRest)->address, address(4 << 20));
  EXPECT_EQ(pool.take(kPool, 3 << 10, kRest)->address, address(8 << 20));
  EXPECT_EQ(pool.take(kPool, 6 << 10, kRest), nullptr);  // only 5 KiB of the 8 are left
}

TEST(BlockPoolTest, KeepsARestThatIsTooSmallWithItsBlock) {
  BlockPool pool;
  EXPECT_EQ(pool.add(segment(4096, 2048), 1600, kRest)->bytes, 2048u);
  EXPECT_EQ(pool.add(segment(8192, 2048), 1536, kRest)->bytes, 1536u);
}

TEST(BlockPoolTest, DoesNotMixPools) {
  BlockPool pool;
  const PoolKey owned{&pool, nullptr, true}, large{nullptr, nullptr, false};
  pool.release(pool.add(segment(4096, 2048), 2048, kRest));
  EXPECT_EQ(pool.take(owned, 512, kRest), nullptr);
  EXPECT_EQ(pool.take(large, 512, kRest), nullptr);
  EXPECT_NE(pool.take(kPool, 512, kRest), nullptr);
}

TEST(BlockPoolTest, NeverSplitsWhatIsNotDivisible) {
  BlockPool pool;
  Block whole = segment(4096, 1 << 20);
  whole.divisible = false;
  EXPECT_EQ(pool.add(whole, 512, kRest)->bytes, std::size_t{1} << 20);
}

TEST(BlockPoolTest, DisownedBlocksServeTheCommonPool) {
  BlockPool pool;
  const PoolKey owned{&pool, nullptr, true};
  Block* used = pool.add(segment(4096, 4096, owned), 1024, kRest);
  EXPECT_TRUE(pool.free_segments(&pool).empty());  // half of the segment is in use
  pool.disown(&pool);
  EXPECT_NE(pool.take(kPool, 2048, kRest), nullptr);
  pool.release(used);
  EXPECT_EQ(pool.take(kPool, 1024, kRest), used);
}

// The model: the blocks in use, by address. Blocks must not overlap, and once all are released each
// segment must be one block again.
TEST(BlockPoolTest, RandomRequestsNeverOverlapAndMergeInTheEnd) {
  testing::Random random(5);
  BlockPool pool;
  std::map<std::byte*, Block*> used;
  std::size_t next_segment = 1 << 20, num_segments = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (!used.empty() && random.chance(0.5)) {
      auto victim = used.lower_bound(address(
          static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(next_segment)))));
      if (victim == used.end()) victim = used.begin();
      pool.release(victim->second);
      used.erase(victim);
      continue;
    }
    const auto bytes = static_cast<std::size_t>(random.integer(1, 64)) * 512;
    Block* block = pool.take(kPool, bytes, kRest);
    if (!block) {
      block = pool.add(segment(next_segment, 64 << 10), bytes, kRest);
      next_segment += 128 << 10;
      ++num_segments;
    }
    ASSERT_GE(block->bytes, bytes);
    const auto after = used.lower_bound(block->address);
    if (after != used.end()) {
      ASSERT_GE(after->first, block->address + block->bytes);
    }
    if (after != used.begin()) {
      const Block* before = std::prev(after)->second;
      ASSERT_LE(before->address + before->bytes, block->address);
    }
    used.emplace(block->address, block);
  }
  for (const auto& [at, block] : used) pool.release(block);
  const std::vector<Block*> whole = pool.free_segments(nullptr);
  ASSERT_EQ(whole.size(), num_segments);
  for (Block* block : whole) {
    EXPECT_EQ(block->bytes, std::size_t{64} << 10);
    pool.remove(block);
  }
  pool.for_each([](const Block&) { ADD_FAILURE() << "a block was left over"; });
}

}  // namespace
}  // namespace ringrad
