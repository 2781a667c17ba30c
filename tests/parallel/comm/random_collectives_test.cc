// Thousands of random collectives in a row. All ranks draw the same sequence, and each result is
// checked exactly. Ranks pause at random places, so that every rank is sometimes first and
// sometimes last.

#include <gtest/gtest.h>

#include <thread>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/random_calls.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

void soak(int n, int calls, const GroupOptions& options) {
  run_ranks(
      n,
      [&](Communicator& comm) {
        testing::Random common(n);                    // equal on all ranks
        testing::Random own(1000 * n + comm.rank());  // differs between ranks
        for (int k = 0; k < calls && !::testing::Test::HasFailure(); ++k) {
          if (own.chance(0.02)) std::this_thread::sleep_for(std::chrono::microseconds(200));
          testing::perform(comm, testing::draw(common, n));
        }
      },
      options);
}

TEST(RandomCollectivesTest, AreExactOnTwoRanks) { soak(2, 3000, {}); }
TEST(RandomCollectivesTest, AreExactOnThreeRanksInSegments) { soak(3, 1500, {.segments = 2}); }
TEST(RandomCollectivesTest, AreExactOnFourRanksByTwoShot) {
  soak(4, 1000, {.all_reduce = "two_shot", .segments = 3});
}
TEST(RandomCollectivesTest, AreExactOnFiveRanksByTreesAndHalving) {
  soak(5, 700,
       {.all_reduce = "halving_doubling",
        .reduce_scatter = "halving",
        .all_gather = "doubling",
        .broadcast = "binomial",
        .reduce = "binomial"});
}
TEST(RandomCollectivesTest, AreExactOnFourRanksByChains) {
  soak(4, 700, {.all_reduce = "chain", .broadcast = "chain", .reduce = "chain", .segments = 4});
}
TEST(RandomCollectivesTest, AreExactOnFourRanksDirectly) {
  soak(4, 1000, {.all_reduce = "one_shot", .reduce_scatter = "direct", .all_gather = "direct"});
}
TEST(RandomCollectivesTest, AreExactOnSevenRanks) { soak(7, 500, {}); }

}  // namespace
}  // namespace ringrad
