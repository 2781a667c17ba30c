#include "parallel/plan/direct_plan.h"

#include <gtest/gtest.h>

#include <numeric>
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

TEST(DirectPlanTest, TwoShotIsProvedFor1To16RanksAndAnySegments) {
  for (int n = 1; n <= kMaxRanks; ++n)
    for (int segments : {1, 2, 3, 5}) expect_proved(two_shot_all_reduce(n, segments));
}

TEST(DirectPlanTest, BroadcastIsProvedFor1To16RanksAndEveryRoot) {
  for (int n = 1; n <= kMaxRanks; ++n)
    for (int root = 0; root < n; ++root) expect_proved(direct_broadcast(n, root));
}

TEST(DirectPlanTest, TwoShotAddsInRankOrderEverywhere) {
  for (int n = 2; n <= kMaxRanks; ++n) {
    std::vector<int> rank_order(n);
    std::iota(rank_order.begin(), rank_order.end(), 0);
    for (const Step& step : two_shot_all_reduce(n, 2).steps)
      if (step.op == StepOp::recv_reduce) {
        EXPECT_EQ(step.peers, rank_order) << step;
      }
  }
}

TEST(DirectPlanTest, TwoShotSendsTheBytesOfTheRingInTwoSteps) {
  for (int n = 2; n <= kMaxRanks; ++n) {
    const std::int64_t count = 6 * n;
    EXPECT_EQ(num_steps(two_shot_all_reduce(n)), 2);
    EXPECT_EQ(num_steps(two_shot_all_reduce(n, 3)), 4);
    for (int r = 0; r < n; ++r)
      EXPECT_EQ(elements_sent(two_shot_all_reduce(n, 3), r, count), 2 * (n - 1) * count / n);
  }
}

TEST(DirectPlanTest, OnlyTheRootOfABroadcastSends) {
  const CollectivePlan plan = direct_broadcast(4, 2);
  EXPECT_EQ(elements_sent(plan, 2, 10), 30);
  EXPECT_EQ(elements_sent(plan, 0, 10), 0);
}

TEST(DirectPlanTest, ThrowsForRanksThatDoNotExist) {
  EXPECT_THROW(two_shot_all_reduce(0), std::invalid_argument);
  EXPECT_THROW(two_shot_all_reduce(2, 0), std::invalid_argument);
  EXPECT_THROW(direct_broadcast(2, 2), std::invalid_argument);
  EXPECT_THROW(direct_broadcast(2, -1), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
