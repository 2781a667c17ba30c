#include "ringrad/parallel/plan/collective/sum_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"

namespace ringrad {
namespace {

// Adds x_left + x_right into rank `to`, one of the two, for each line of the list. Rank 0 then has
// the sum.
struct Addition {
  int left, right, to;
};

CollectivePlan reduce_by(int world_size, std::vector<Addition> additions) {
  CollectivePlan plan = empty_plan(Collective::reduce, "by hand", world_size);
  int slot = 0;
  for (const auto& [left, right, to] : additions) {
    plan.send(slot, to == left ? right : left, 0, to);
    plan.recv_reduce(slot++, to, 0, {left, right});
  }
  return plan;
}

TEST(SumOrderTest, RankOrderIsCanonical) {
  EXPECT_EQ(sum_order(reduce_by(4, {{0, 1, 0}, {0, 2, 0}, {0, 3, 0}})), SumOrder::canonical);
}

TEST(SumOrderTest, PairsOfPairsAreATree) {
  EXPECT_EQ(sum_order(reduce_by(4, {{0, 1, 0}, {2, 3, 2}, {0, 2, 0}})), SumOrder::tree);
}

TEST(SumOrderTest, OperandsTheOtherWayAroundAreNeither) {
  EXPECT_EQ(sum_order(reduce_by(4, {{0, 1, 0}, {2, 3, 2}, {2, 0, 0}})), SumOrder::fast);
  EXPECT_EQ(sum_order(reduce_by(2, {{1, 0, 0}})), SumOrder::fast);
}

TEST(SumOrderTest, TheFirstRanksArePairedIfThereIsNoPowerOfTwo) {
  EXPECT_EQ(sum_order(reduce_by(5, {{0, 1, 0}, {0, 2, 0}, {3, 4, 3}, {0, 3, 0}})), SumOrder::tree);
  EXPECT_EQ(sum_order(reduce_by(5, {{0, 1, 0}, {2, 3, 2}, {0, 2, 0}, {0, 4, 0}})), SumOrder::fast);
  EXPECT_EQ(sum_order(reduce_by(6, {{0, 1, 0}, {2, 3, 2}, {4, 5, 4}, {0, 2, 0}, {0, 4, 0}})),
            SumOrder::tree);
}

TEST(SumOrderTest, TheCanonicalOrderOfUpToThreeRanksIsATree) {
  for (int n : {1, 2, 3})
    for (SumOrder order : {SumOrder::canonical, SumOrder::tree, SumOrder::fast})
      EXPECT_TRUE(has_sum_order(make_plan(Collective::all_reduce, "two_shot", n), order));
}

TEST(SumOrderTest, OneChunkInAnotherOrderIsEnoughToBeFast) {
  // Chunk 0 of a ring of three is x1 + x2 + x0, chunk 2 is x0 + x1 + x2.
  EXPECT_EQ(sum_order(ring_all_reduce(3)), SumOrder::fast);
}

void expect_order(Collective collective, const char* algorithm, SumOrder order, int max_root = 0) {
  for (int n = 2; n <= kMaxProvedRanks; ++n)
    for (int root = 0; root <= std::min(max_root, n - 1); ++root)
      EXPECT_TRUE(
          has_sum_order(make_plan(collective, algorithm, n, {.segments = 3, .root = root}), order))
          << algorithm << ' ' << n << " ranks, root " << root;
}

TEST(SumOrderTest, AlgorithmsAddInTheOrderTheyState) {
  for (const char* algorithm : {"chain", "one_shot", "two_shot"})
    expect_order(Collective::all_reduce, algorithm, SumOrder::canonical);
  expect_order(Collective::reduce_scatter, "direct", SumOrder::canonical);
  expect_order(Collective::reduce, "direct", SumOrder::canonical, 3);
  expect_order(Collective::all_reduce, "halving_doubling", SumOrder::tree);
  expect_order(Collective::reduce_scatter, "halving", SumOrder::tree);
  expect_order(Collective::reduce, "binomial", SumOrder::tree, 7);
  for (int n = 4; n <= kMaxProvedRanks; ++n) {
    EXPECT_EQ(sum_order(make_plan(Collective::reduce, "chain", n, {.root = n - 1})),
              SumOrder::canonical);
    EXPECT_EQ(sum_order(make_plan(Collective::reduce, "chain", n)), SumOrder::fast);
    for (const char* algorithm : {"ring", "bidirectional_ring", "tree"})
      EXPECT_EQ(sum_order(make_plan(Collective::all_reduce, algorithm, n)), SumOrder::fast);
  }
}

TEST(SumOrderTest, ThrowsForAPlanThatIsNotProved) {
  CollectivePlan plan = ring_all_reduce(3);
  plan.steps.pop_back();
  EXPECT_THROW(sum_order(plan), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
