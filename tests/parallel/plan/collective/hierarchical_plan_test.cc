#include "ringrad/parallel/plan/collective/hierarchical_plan.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ringrad {
namespace {

TEST(HierarchicalPlanTest, SendsBetweenHostsOnlyTheRanksShare) {
  for (int hosts : {2, 3, 4})
    for (int m : {1, 2, 4, 8}) {
      const CollectivePlan plan = hierarchical_all_reduce(hosts, m);
      const std::int64_t count = 12 * hosts * m;
      std::int64_t inside = 0, between = 0;  // of rank 1, or of rank 0 if there is no other
      const int rank = m > 1 ? 1 : 0;
      for (const Step& step : plan.steps)
        if (step.rank == rank && step.op == StepOp::send)
          (step.peers[0] / m == rank / m ? inside : between) += chunk_size(plan, step.chunk, count);
      EXPECT_EQ(inside, 2 * (m - 1) * count / m);
      EXPECT_EQ(between, 2 * (hosts - 1) * count / hosts / m);
      EXPECT_EQ(num_steps(plan), 2 * (hosts - 1) + (m > 1 ? 2 : 0));
    }
}

TEST(HierarchicalPlanTest, BetweenHostsOnlyRanksOfOneLocalIndexTalk) {
  const int m = 3;
  for (const Step& step : hierarchical_all_reduce(4, m).steps)
    for (int peer : step.peers)
      EXPECT_TRUE(peer / m == step.rank / m || peer % m == step.rank % m) << step;
}

TEST(HierarchicalPlanTest, AShareTravelsInsideAHostAsOneMessage) {
  EXPECT_EQ(messages_sent(hierarchical_all_reduce(8, 2), 0), 2 * (8 - 1) + 2);
}

TEST(HierarchicalPlanTest, ThrowsWithoutHostsOrRanks) {
  EXPECT_THROW(hierarchical_all_reduce(0, 2), std::invalid_argument);
  EXPECT_THROW(hierarchical_all_reduce(2, 0), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
