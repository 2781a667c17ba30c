#include "ringrad/parallel/plan/collective/leaders_plan.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "ringrad/parallel/plan/collective/check.h"

namespace ringrad {
namespace {

constexpr Collective kKnown[] = {Collective::all_reduce, Collective::reduce_scatter,
                                 Collective::broadcast, Collective::reduce};

// Of every collective, with every root that it may have.
template <class Body>
void for_every(int hosts, int m, Body body) {
  for (const Collective collective : kKnown)
    for (int root = 0; root < (has_root(collective) ? hosts * m : 1); ++root)
      body(leaders_plan(collective, hosts, m, root));
}

TEST(LeadersPlanTest, IsProved) {
  for (int hosts = 1; hosts <= 4; ++hosts)
    for (int m = 1; m <= 4; ++m)
      for_every(hosts, m, [](const CollectivePlan& plan) {
        const auto wrong = plan_check(plan);
        EXPECT_FALSE(wrong) << *wrong << '\n' << plan;
      });
}

TEST(LeadersPlanTest, BetweenHostsOnlyLeadersTalk) {
  const int m = 3;
  for_every(4, m, [](const CollectivePlan& plan) {
    for (const Step& step : plan.steps)
      for (const int peer : step.peers)
        EXPECT_TRUE(peer / m == step.rank / m || (peer % m == 0 && step.rank % m == 0)) << step;
  });
}

TEST(LeadersPlanTest, ALeaderSendsOneRanksBytesBetweenHosts) {
  for (const int hosts : {2, 3, 8})
    for (const int m : {1, 2, 4}) {
      const std::int64_t count = 12 * hosts;
      std::int64_t between = 0;  // of rank 0
      for (const Step& step : leaders_plan(Collective::all_reduce, hosts, m).steps)
        if (step.rank == 0 && is_send(step.op) && step.peers[0] >= m) between += count / hosts;
      EXPECT_EQ(between, 2 * (hosts - 1) * count / hosts);
    }
}

TEST(LeadersPlanTest, ThrowsWithoutHostsOrRanksOrARoot) {
  for (const Collective collective : kKnown) {
    EXPECT_THROW(leaders_plan(collective, 0, 2), std::invalid_argument);
    EXPECT_THROW(leaders_plan(collective, 2, 0), std::invalid_argument);
  }
  for (const int root : {-1, 4})
    EXPECT_THROW(leaders_plan(Collective::reduce, 2, 2, root), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
