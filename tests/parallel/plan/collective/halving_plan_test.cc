#include "ringrad/parallel/plan/collective/halving_plan.h"

#include <gtest/gtest.h>

#include <bit>

namespace ringrad {
namespace {

constexpr int kMaxRanks = 64;

int log2_of(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }

TEST(HalvingPlanTest, APowerOfTwoTakesOneMessagePerStepAndTheLeastBytes) {
  for (int n = 1; n <= kMaxRanks; n *= 2)
    for (int r = 0; r < n; ++r) {
      const CollectivePlan all_reduce = halving_doubling_all_reduce(n);
      EXPECT_EQ(num_steps(all_reduce), 2 * log2_of(n));
      EXPECT_EQ(messages_sent(all_reduce, r), 2 * log2_of(n));
      EXPECT_EQ(elements_sent(all_reduce, r, 6 * n), 2 * (n - 1) * 6);
      for (const CollectivePlan& half : {halving_reduce_scatter(n), doubling_all_gather(n)}) {
        EXPECT_EQ(num_steps(half), log2_of(n));
        EXPECT_EQ(messages_sent(half, r), log2_of(n));
        EXPECT_EQ(elements_sent(half, r, 6 * n), (n - 1) * 6);
      }
    }
}

TEST(HalvingPlanTest, FoldingCostsTwoStepsAndThePairsOneBufferEachWay) {
  for (int n = 3; n <= kMaxRanks; ++n) {
    if (std::has_single_bit(static_cast<unsigned>(n))) continue;
    const int p = 1 << log2_of(n);
    const std::int64_t count = 6 * p;
    const CollectivePlan plan = halving_doubling_all_reduce(n);
    EXPECT_EQ(num_steps(plan), 2 * log2_of(n) + 2);
    EXPECT_EQ(elements_sent(plan, 0, count), 2 * (p - 1) * 6 + count);  // first of a pair
    EXPECT_EQ(elements_sent(plan, 1, count), count);                    // second of a pair
    EXPECT_EQ(messages_sent(plan, 1), 1);
  }
}

TEST(HalvingPlanTest, PartnersAreTwiceAsFarInEveryStepOfHalving) {
  for (const Step& step : halving_reduce_scatter(16).steps)
    if (step.op == StepOp::send) {
      EXPECT_EQ(step.peers[0], step.rank ^ (1 << step.step)) << step;
    }
}

}  // namespace
}  // namespace ringrad
