#include "ringrad/parallel/plan/collective/collective_plan.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace ringrad {
namespace {

TEST(ChunkRangeTest, ChunksPartitionTheBufferInOrder) {
  for (std::int64_t count : {0, 1, 2, 3, 7, 8, 9, 1000, 1023})
    for (int num_chunks : {1, 2, 3, 7, 8, 16}) {
      std::int64_t next = 0;
      for (int c = 0; c < num_chunks; ++c) {
        const ElementRange range = chunk_range(count, num_chunks, c);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.size(), count / num_chunks);
        EXPECT_LE(range.size(), (count + num_chunks - 1) / num_chunks);
        next = range.end;
      }
      EXPECT_EQ(next, count) << count << " elements in " << num_chunks << " chunks";
    }
}

// For all dtypes: 16 bytes hold this many elements.
TEST(ChunkRangeTest, ChunksBeginAtMultiplesOfTheGranule) {
  for (const std::int64_t granule : {16, 8, 4, 2})
    for (std::int64_t count = 0; count < 400; ++count)
      for (int num_chunks = 1; num_chunks <= 17; ++num_chunks) {
        const std::int64_t largest = chunk_range(count, num_chunks, 0, granule).size();
        std::int64_t next = 0;
        for (int c = 0; c < num_chunks; ++c) {
          const ElementRange range = chunk_range(count, num_chunks, c, granule);
          ASSERT_EQ(range.begin, next);
          ASSERT_TRUE(range.begin % granule == 0 || range.begin == count)
              << "chunk " << c << " of " << num_chunks << ", " << count << " elements";
          ASSERT_LE(range.size(), largest);
          // All chunks except the one that holds the end, and empty chunks behind it.
          if (range.end < count) {
            ASSERT_GE(range.size(), largest - granule);
          }
          next = range.end;
        }
        ASSERT_EQ(next, count);
      }
}

TEST(ChunkRangeTest, FewerElementsThanChunksLeavesTheLastOnesEmpty) {
  EXPECT_EQ(chunk_range(2, 4, 0), (ElementRange{0, 1}));
  EXPECT_EQ(chunk_range(2, 4, 1), (ElementRange{1, 2}));
  EXPECT_EQ(chunk_range(2, 4, 2).size(), 0);
  EXPECT_EQ(chunk_range(2, 4, 3).size(), 0);
}

TEST(ChunkRangeTest, DoesNotOverflowForTheLargestCount) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(chunk_range(most, 1024, 1023).end, most);
  EXPECT_EQ(chunk_range(most, 3, 1).begin, chunk_range(most, 3, 0).end);
  EXPECT_EQ(chunk_range(most, 1024, 1023, 16).end, most);
}

CollectivePlan exchange() {
  CollectivePlan plan;
  plan.algorithm = "exchange";
  plan.world_size = 2;
  plan.num_chunks = 1;
  plan.recv_reduce(1, 0, 0, {0, 1});
  plan.send(0, 1, 0, 0);
  return plan;
}

TEST(CollectivePlanTest, PrintsStepsByTimeSlot) {
  std::ostringstream out;
  out << exchange();
  EXPECT_EQ(out.str(),
            "exchange all_reduce: 2 ranks, 1 chunks, 2 steps\n"
            "step 0: rank 1 send chunk 0 -> 0\n"
            "step 1: rank 0 recv_reduce chunk 0 <- 0 1\n");
}

TEST(CollectivePlanTest, ComparesByValue) {
  CollectivePlan other = exchange();
  EXPECT_EQ(exchange(), other);
  other.steps[0].peers = {1, 0};  // another order of addition is another plan
  EXPECT_NE(exchange(), other);
}

TEST(CollectivePlanTest, OwnersHoldEqualContiguousShares) {
  CollectivePlan plan;
  plan.world_size = 3;
  plan.num_chunks = 6;
  EXPECT_EQ(owner(plan, 0), 0);
  EXPECT_EQ(owner(plan, 1), 0);
  EXPECT_EQ(owner(plan, 2), 1);
  EXPECT_EQ(owner(plan, 5), 2);
}

}  // namespace
}  // namespace ringrad
