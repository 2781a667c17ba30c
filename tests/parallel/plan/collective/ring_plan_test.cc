#include "ringrad/parallel/plan/collective/ring_plan.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
namespace ringrad {
namespace {

constexpr int kMaxRanks = 16;

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

TEST(RingPlanTest, TheBidirectionalRingSendsHalfEachWayInEveryStep) {
  for (int n = 3; n <= kMaxRanks; ++n) {
    const CollectivePlan plan = bidirectional_ring_all_reduce(n);
    const std::int64_t count = 6 * n;
    EXPECT_EQ(num_steps(plan), 2 * (n - 1));
    std::int64_t up = 0, down = 0;
    for (const Step& step : plan.steps)
      if (step.op == StepOp::send)
        (step.peers[0] == (step.rank + 1) % n ? up : down) += chunk_size(plan, step.chunk, count);
    EXPECT_EQ(up, (n - 1) * count);
    EXPECT_EQ(down, (n - 1) * count);
    EXPECT_EQ(elements_sent(plan, 0, count), 2 * (n - 1) * count / n);
  }
}

// With two ranks both directions lead to the same peer: one message of two chunks.
TEST(RingPlanTest, TheBidirectionalRingOfTwoRanksSendsOneMessageAStep) {
  EXPECT_EQ(messages_sent(bidirectional_ring_all_reduce(2), 0), 2);
  EXPECT_EQ(messages_sent(bidirectional_ring_all_reduce(3), 0), 8);
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
  EXPECT_THROW(bidirectional_ring_all_reduce(0), std::invalid_argument);
  EXPECT_THROW(ring_reduce_scatter(-1), std::invalid_argument);
  EXPECT_THROW(ring_all_gather(0), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
