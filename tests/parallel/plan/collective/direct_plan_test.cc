#include "ringrad/parallel/plan/collective/direct_plan.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace ringrad {
namespace {

constexpr int kMaxRanks = 16;

TEST(DirectPlanTest, TwoShotSendsTheBytesOfTheRingInTwoSteps) {
  for (int n = 2; n <= kMaxRanks; ++n) {
    const std::int64_t count = 6 * n;
    EXPECT_EQ(num_steps(two_shot_all_reduce(n)), 2);
    EXPECT_EQ(num_steps(two_shot_all_reduce(n, 3)), 4);
    for (int r = 0; r < n; ++r)
      EXPECT_EQ(elements_sent(two_shot_all_reduce(n, 3), r, count), 2 * (n - 1) * count / n);
  }
}

TEST(DirectPlanTest, OneShotSendsAllItHasToEverybodyInOneStep) {
  for (int n = 2; n <= kMaxRanks; ++n) {
    EXPECT_EQ(num_steps(one_shot_all_reduce(n)), 1);
    EXPECT_EQ(elements_sent(one_shot_all_reduce(n), n - 1, 10), (n - 1) * 10);
  }
}

TEST(DirectPlanTest, ScatteringAndGatheringAreTheTwoShots) {
  for (int n = 2; n <= kMaxRanks; ++n)
    for (const CollectivePlan& shot : {direct_reduce_scatter(n), direct_all_gather(n)}) {
      EXPECT_EQ(num_steps(shot), 1);
      EXPECT_EQ(2 * elements_sent(shot, 1, 6 * n), elements_sent(two_shot_all_reduce(n), 1, 6 * n));
    }
}

TEST(DirectPlanTest, EveryRankExchangesOneMessageInEachStepOfAnAllToAll) {
  for (int n = 1; n <= kMaxRanks; ++n) {
    const CollectivePlan plan = pairwise_all_to_all(n);
    EXPECT_EQ(num_steps(plan), n - 1);
    std::vector<int> sent(n * n), received(n * n);
    for (const Step& step : plan.steps)
      ++(step.op == StepOp::send ? sent : received)[step.step * n + step.rank];
    for (int i = 0; i < n * (n - 1); ++i) {
      EXPECT_EQ(sent[i], 1);
      EXPECT_EQ(received[i], 1);
    }
    EXPECT_EQ(elements_sent(plan, 0, 6 * n), 6 * (n - 1));
  }
}

TEST(DirectPlanTest, OnlyTheRootOfAReduceReceives) {
  const CollectivePlan plan = direct_reduce(4, 2);
  EXPECT_EQ(elements_sent(plan, 2, 10), 0);
  EXPECT_EQ(elements_sent(plan, 0, 10), 10);
}

TEST(DirectPlanTest, OnlyTheRootOfABroadcastSends) {
  const CollectivePlan plan = direct_broadcast(4, 2);
  EXPECT_EQ(elements_sent(plan, 2, 10), 30);
  EXPECT_EQ(elements_sent(plan, 0, 10), 0);
}

TEST(DirectPlanTest, ThrowsForRanksThatDoNotExist) {
  EXPECT_THROW(two_shot_all_reduce(0), std::invalid_argument);
  EXPECT_THROW(two_shot_all_reduce(2, 0), std::invalid_argument);
  EXPECT_THROW(one_shot_all_reduce(0), std::invalid_argument);
  EXPECT_THROW(direct_reduce_scatter(0), std::invalid_argument);
  EXPECT_THROW(direct_all_gather(0), std::invalid_argument);
  EXPECT_THROW(pairwise_all_to_all(0), std::invalid_argument);
  EXPECT_THROW(direct_reduce(2, 2), std::invalid_argument);
  EXPECT_THROW(direct_broadcast(2, 2), std::invalid_argument);
  EXPECT_THROW(direct_broadcast(2, -1), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
