#include "parallel/plan/ring_plan.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "parallel/plan/check.h"

namespace ringrad {
namespace {

constexpr int kMaxRanks = 16;

void expect_proved(const CollectivePlan& plan) {
  for (int slots : {1, 2, 8})
    if (const auto example = plan_check(plan, slots))
      ADD_FAILURE() << plan.algorithm << " with " << plan.world_size << " ranks: " << *example;
}

TEST(RingPlanTest, AllReduceIsProvedFor1To16RanksAndAnySegments) {
  for (int n = 1; n <= kMaxRanks; ++n)
    for (int segments : {1, 2, 3, 5}) expect_proved(ring_all_reduce(n, segments));
}

TEST(RingPlanTest, ReduceScatterIsProvedFor1To16Ranks) {
  for (int n = 1; n <= kMaxRanks; ++n) expect_proved(ring_reduce_scatter(n));
}

TEST(RingPlanTest, AllGatherIsProvedFor1To16Ranks) {
  for (int n = 1; n <= kMaxRanks; ++n) expect_proved(ring_all_gather(n));
}

TEST(RingPlanTest, EveryRankSendsTheLeastPossibleBytes) {
  for (int n = 1; n <= kMaxRanks; ++n) {
    const std::int64_t count = 6 * n;  // equal chunks, so that the formula is exact
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(elements_sent(ring_all_reduce(n), r, count), 2 * (n - 1) * count / n);
      EXPECT_EQ(elements_sent(ring_all_reduce(n, 3), r, count), 2 * (n - 1) * count / n);
      EXPECT_EQ(elements_sent(ring_reduce_scatter(n), r, count), (n - 1) * count / n);
      EXPECT_EQ(elements_sent(ring_all_gather(n), r, count), (n - 1) * count / n);
    }
  }
}

TEST(RingPlanTest, TakesTheStepsItStates) {
  for (int n = 1; n <= kMaxRanks; ++n) {
    EXPECT_EQ(num_steps(ring_all_reduce(n)), 2 * (n - 1));
    EXPECT_EQ(num_steps(ring_all_reduce(n, 4)), 5 * (n - 1));
    EXPECT_EQ(num_steps(ring_reduce_scatter(n)), n - 1);
    EXPECT_EQ(num_steps(ring_all_gather(n)), n - 1);
  }
}

TEST(RingPlanTest, EveryMessageGoesToTheRightNeighbour) {
  for (const Step& step : ring_all_reduce(5, 2).steps)
    if (step.op == StepOp::send) {
      EXPECT_EQ(step.peers[0], (step.rank + 1) % 5) << step;
    }
}

TEST(RingPlanTest, TwoRanksReadAsInTheBook) {
  std::ostringstream out;
  out << ring_all_reduce(2);
  EXPECT_EQ(out.str(),
            "ring all_reduce: 2 ranks, 2 chunks, 2 steps\n"
            "step 0: rank 0 send chunk 1 -> 1\n"
            "step 0: rank 1 send chunk 0 -> 0\n"
            "step 0: rank 0 recv_reduce chunk 0 <- 1 0\n"
            "step 0: rank 1 recv_reduce chunk 1 <- 0 1\n"
            "step 1: rank 0 send chunk 0 -> 1\n"
            "step 1: rank 1 send chunk 1 -> 0\n"
            "step 1: rank 0 recv chunk 1 <- 1\n"
            "step 1: rank 1 recv chunk 0 <- 0\n");
}

TEST(RingPlanTest, ThrowsWithoutRanksOrSegments) {
  EXPECT_THROW(ring_all_reduce(0), std::invalid_argument);
  EXPECT_THROW(ring_all_reduce(2, 0), std::invalid_argument);
  EXPECT_THROW(ring_reduce_scatter(-1), std::invalid_argument);
  EXPECT_THROW(ring_all_gather(0), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
