#include "ringrad/data/random_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace ringrad {
namespace {

TEST(RandomStreamTest, EverySeedEpochAndItemHasItsOwnStream) {
  std::set<std::uint64_t> first_draws;
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      for (std::int64_t item = 0; item < 8; ++item)
        first_draws.insert(random_stream(seed, epoch, item).below(UINT64_MAX));
      first_draws.insert(random_stream(seed, epoch).below(UINT64_MAX));
    }
  EXPECT_EQ(first_draws.size(), 8u * 8 * 9);
}

// All bits of numbers beyond 32 bits must count.
TEST(RandomStreamTest, EveryBitOfTheKeyMatters) {
  std::set<std::uint64_t> keys = {mix_seed(0, 0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    keys.insert(mix_seed(std::uint64_t{1} << bit, 0, 0));
    keys.insert(mix_seed(0, std::uint64_t{1} << bit, 0));
    keys.insert(mix_seed(0, 0, std::uint64_t{1} << bit));
  }
  EXPECT_EQ(keys.size(), 1u + 3 * 64);
}

TEST(RandomStreamTest, UnitDrawsFillTheUnitInterval) {
  Generator generator(1);
  double sum = 0, least = 1, greatest = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = draw_unit(generator);
    sum += draw;
    least = std::min(least, draw);
    greatest = std::max(greatest, draw);
  }
  EXPECT_GE(least, 0);
  EXPECT_LT(greatest, 1);
  EXPECT_LT(least, 1e-3);
  EXPECT_GT(greatest, 1 - 1e-3);
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * 0.29 / 316);  // a uniform deviation is 0.289
}

}  // namespace
}  // namespace ringrad
