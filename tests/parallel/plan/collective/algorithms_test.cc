#include "ringrad/parallel/plan/collective/algorithms.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"

namespace ringrad {
namespace {

void expect_proved(const CollectivePlan& plan, int slots) {
  if (const auto example = plan_check(plan, slots))
    ADD_FAILURE() << plan.algorithm << ' ' << name(plan.collective) << ", " << plan.world_size
                  << " ranks, " << plan.num_chunks << " chunks, root " << plan.root << ": "
                  << *example;
}

// Rooted plans with every root up to 16 ranks, and with some roots beyond: roots differ by a
// renaming only.
TEST(AlgorithmsTest, EveryPlanIsProvedFor1To64Ranks) {
  for (Collective collective : kAllCollectives)
    for (int n = 1; n <= kMaxProvedRanks; ++n)
      for_every_plan(collective, n, [&](const CollectivePlan& plan) {
        if (n <= 16 || plan.root % 13 == 0) expect_proved(plan, 1);
      });
}

TEST(AlgorithmsTest, MoreSlotsDoNoHarm) {
  for (Collective collective : kAllCollectives)
    for (int n = 1; n <= 9; ++n)
      for_every_plan(collective, n, [](const CollectivePlan& plan) {
        for (int slots : {2, 8}) expect_proved(plan, slots);
      });
}

TEST(AlgorithmsTest, PlansBearTheirNames) {
  for (Collective collective : kAllCollectives)
    for (const std::string& algorithm : algorithm_names(collective)) {
      const CollectivePlan plan = make_plan(collective, algorithm, 4);
      EXPECT_EQ(plan.algorithm, algorithm);
      EXPECT_EQ(plan.collective, collective);
      EXPECT_EQ(plan.world_size, 4);
    }
}

// Links are the cost of a collective: no algorithm may send less than a bound that follows from
// what the ranks must learn, and algorithms that claim the bound must meet it.
TEST(AlgorithmsTest, TotalTrafficIsAtLeastWhatTheCollectiveNeeds) {
  for (int n = 2; n <= 9; ++n) {
    const std::int64_t count = 2520 * n;
    const auto traffic = [&](const CollectivePlan& plan) {
      std::int64_t total = 0;
      for (int r = 0; r < n; ++r) total += elements_sent(plan, r, count);
      return total;
    };
    for (Collective collective : kAllCollectives) {
      const bool both_ways = collective == Collective::all_reduce;
      for_every_plan(collective, n, [&](const CollectivePlan& plan) {
        EXPECT_GE(traffic(plan), (both_ways ? 2 : 1) * (n - 1) * count) << plan.algorithm;
      });
    }
    for (const char* algorithm : {"ring", "bidirectional_ring", "two_shot", "tree", "chain"})
      EXPECT_EQ(traffic(make_plan(Collective::all_reduce, algorithm, n)), 2 * (n - 1) * count);
  }
}

std::string error_of(Collective collective, const char* algorithm, int n,
                     const PlanOptions& options) {
  try {
    make_plan(collective, algorithm, n, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(AlgorithmsTest, AnUnknownNameIsToldTheKnownOnes) {
  const std::string error = error_of(Collective::broadcast, "ring", 4, {});
  EXPECT_TRUE(error.starts_with("broadcast: the algorithm must be one of direct, binomial, chain"))
      << error;
  EXPECT_TRUE(error.ends_with("; got 'ring'")) << error;
}

TEST(AlgorithmsTest, ThrowsForOptionsThatMakeNoPlan) {
  EXPECT_EQ(error_of(Collective::all_reduce, "hierarchical", 6, {.ranks_per_host = 4}),
            "hierarchical all_reduce: ranks per host must divide the world size; got 4 and 6");
  EXPECT_EQ(error_of(Collective::reduce, "leaders", 6, {.ranks_per_host = 4}),
            "leaders reduce: ranks per host must divide the world size; got 4 and 6");
  EXPECT_EQ(error_of(Collective::all_reduce, "hierarchical", 6, {.ranks_per_host = 0}),
            "hierarchical all_reduce: ranks per host must divide the world size; got 0 and 6");
  EXPECT_EQ(error_of(Collective::all_reduce, "chain", 3, {.segments = 0}),
            "chain all_reduce: segments must be positive; got 0");
  EXPECT_EQ(error_of(Collective::reduce, "binomial", 3, {.root = 3}),
            "binomial reduce: root must be a rank; got root 3 and world size 3");
  for (Collective collective : kAllCollectives)
    for (const std::string& algorithm : algorithm_names(collective))
      EXPECT_NE(error_of(collective, algorithm.c_str(), 0, {}), "none") << algorithm;
}

}  // namespace
}  // namespace ringrad
