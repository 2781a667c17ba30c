#include "ringrad/parallel/plan/collective/tree_plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace ringrad {
namespace {

constexpr int kMaxRanks = 64;

int ceil_log2(int n) { return std::bit_width(static_cast<unsigned>(n) - 1); }
int floor_log2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }

TEST(TreePlanTest, TheBinaryTreeTakesTheStepsItStates) {
  for (int n = 2; n <= kMaxRanks; ++n) {
    EXPECT_EQ(num_steps(tree_all_reduce(n)), 2 * floor_log2(n));
    EXPECT_EQ(num_steps(tree_all_reduce(n, 7)), 2 * floor_log2(n) + 6);
  }
}

TEST(TreePlanTest, ARankOfTheBinaryTreeTalksToItsParentAndTwoChildren) {
  for (const Step& step : tree_all_reduce(kMaxRanks, 2).steps)
    for (int peer : step.peers)
      EXPECT_TRUE(peer == step.rank || (peer - 1) / 2 == step.rank || (step.rank - 1) / 2 == peer)
          << step;
  for (int r = 0; r < kMaxRanks; ++r)
    EXPECT_LE(elements_sent(tree_all_reduce(kMaxRanks), r, 10), 30);
}

TEST(TreePlanTest, BinomialTreesTakeLogSteps) {
  for (int n = 1; n <= kMaxRanks; ++n)
    for (int root : {0, n / 3, n - 1}) {
      EXPECT_EQ(num_steps(binomial_broadcast(n, root)), ceil_log2(n));
      EXPECT_EQ(num_steps(binomial_reduce(n, root)), ceil_log2(n));
    }
}

TEST(TreePlanTest, BinomialTreesSendEachRankTheBufferOnce) {
  for (int n = 1; n <= kMaxRanks; ++n)
    for (int root : {0, n / 3, n - 1}) {
      std::vector<int> received(n), sent(n);
      for (const Step& step : binomial_broadcast(n, root).steps)
        received[step.rank] += step.op == StepOp::recv;
      for (const Step& step : binomial_reduce(n, root).steps)
        sent[step.rank] += step.op == StepOp::send;
      for (int r = 0; r < n; ++r) {
        EXPECT_EQ(received[r], r == root ? 0 : 1);
        EXPECT_EQ(sent[r], r == root ? 0 : 1);
      }
    }
}

}  // namespace
}  // namespace ringrad
