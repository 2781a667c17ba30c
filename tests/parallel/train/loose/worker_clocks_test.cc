#include "ringrad/parallel/train/loose/worker_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

TEST(WorkerClocksTest, LeadIsTheDistanceToTheSlowest) {
  WorkerClocks clocks(3);
  for (const int worker : {0, 0, 0, 1}) clocks.advance(worker);
  EXPECT_EQ(clocks.lead(0), 3);
  EXPECT_EQ(clocks.lead(1), 1);
  EXPECT_EQ(clocks.lead(2), 0);
}

TEST(WorkerClocksTest, AWorkerThatHasLeftIsNotWaitedFor) {
  WorkerClocks clocks(3);
  for (const int worker : {0, 0, 0, 1}) clocks.advance(worker);
  clocks.leave(2);
  EXPECT_EQ(clocks.num_here(), 2);
  EXPECT_EQ(clocks.lead(0), 2);
  clocks.leave(1);
  EXPECT_EQ(clocks.lead(0), 0);
}

// Random workers advance whenever the rule allows: the slowest always may, no worker is ever more
// than staleness + 1 ahead, and some worker reaches that lead now and then.
TEST(WorkerClocksTest, TheRuleBoundsTheLeadAndHoldsNobodyUpForEver) {
  testing::Random random(1);
  for (const std::int64_t staleness : {0, 1, 4})
    for (const int num_workers : {1, 2, 5}) {
      WorkerClocks clocks(num_workers);
      std::int64_t greatest = 0;
      for (int round = 0; round < 2000; ++round) {
        int num_free = 0;
        for (int worker = 0; worker < num_workers; ++worker) {
          greatest = std::max(greatest, clocks.lead(worker));
          num_free += clocks.lead(worker) <= staleness;
        }
        ASSERT_GT(num_free, 0);
        const int worker = static_cast<int>(random.integer(0, num_workers));
        if (clocks.lead(worker) <= staleness) clocks.advance(worker);
      }
      EXPECT_EQ(greatest, num_workers == 1 ? 0 : staleness + 1);
    }
}

}  // namespace
}  // namespace ringrad
