#include "ringrad/parallel/comm/common/rank_names.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace ringrad {
namespace {

TEST(RankNamesTest, NamesRanksByTheirNumbersInTheJob) {
  const RankNames names({3, 4, 5});
  EXPECT_EQ(names(1), 4);
  EXPECT_EQ(names(-1), -1);
  EXPECT_EQ(names.list(std::vector{1}), "rank 4");
  EXPECT_EQ(names.list(std::vector{0, 2}), "ranks 3, 5");
  EXPECT_EQ(names.of(std::vector{2, 0}).list(std::vector{0, 1}), "ranks 5, 3");
}

TEST(RankNamesTest, ALongListIsShortened) {
  std::vector<int> ranks(9);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(RankNames().list(ranks), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8");
  ranks.push_back(20);
  EXPECT_EQ(RankNames().list(ranks), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
  ranks.resize(64);
  EXPECT_EQ(RankNames().list(ranks), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 more");
}

}  // namespace
}  // namespace ringrad
