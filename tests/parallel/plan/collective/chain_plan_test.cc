#include "ringrad/parallel/plan/collective/chain_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace ringrad {
namespace {

constexpr int kMaxRanks = 16;

TEST(ChainPlanTest, TakesTheStepsItStates) {
  for (int n = 2; n <= kMaxRanks; ++n)
    for (int k : {1, 2, 9}) {
      EXPECT_EQ(num_steps(chain_all_reduce(n, k)), 2 * (n - 1) + k - 1);
      EXPECT_EQ(num_steps(chain_broadcast(n, n / 2, k)), n - 1 + k - 1);
      EXPECT_EQ(num_steps(chain_reduce(n, n / 2, k)), n - 1 + k - 1);
    }
}

// Each link carries each segment once, in its own slot: this is what makes it a pipeline.
TEST(ChainPlanTest, EveryLinkCarriesAtMostOneSegmentPerSlot) {
  const int n = 6, k = 9;
  for (const CollectivePlan& plan :
       {chain_all_reduce(n, k), chain_broadcast(n, 2, k), chain_reduce(n, 2, k)}) {
    std::vector<int> carried(num_steps(plan) * n * n);
    for (const Step& step : plan.steps)
      if (step.op == StepOp::send) {
        EXPECT_EQ(++carried[(step.step * n + step.rank) * n + step.peers[0]], 1) << step;
      }
    for (int r = 0; r < n; ++r) {
      EXPECT_LE(elements_sent(plan, r, 90), plan.collective == Collective::all_reduce ? 180 : 90);
      EXPECT_EQ(elements_sent(plan, r, 90) % 90, 0);
    }
  }
}

TEST(ChainPlanTest, AllReduceTalksToNeighboursOnTheLineOnly) {
  for (const Step& step : chain_all_reduce(7, 3).steps)
    if (step.op == StepOp::send) {
      EXPECT_EQ(std::abs(step.peers[0] - step.rank), 1) << step;
    }
}

}  // namespace
}  // namespace ringrad
