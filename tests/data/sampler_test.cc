#include "ringrad/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using Indices = std::vector<std::int64_t>;

Indices numbers_below(std::int64_t n) {
  Indices numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

TEST(SequentialSamplerTest, CountsUp) {
  EXPECT_EQ(SequentialSampler(5).indices(), numbers_below(5));
  EXPECT_EQ(SequentialSampler(0).indices(), Indices());
}

TEST(RandomSamplerTest, VisitsEverySampleOnce) {
  for (const std::int64_t n : {0, 1, 2, 3, 100, 1000}) {
    RandomSampler sampler(n, 7);
    EXPECT_EQ(sampler.size(), n);
    for (int epoch = 0; epoch < 3; ++epoch) {
      sampler.set_epoch(epoch);
      EXPECT_EQ(sorted(sampler.indices()), numbers_below(n));
    }
  }
}

TEST(RandomSamplerTest, OrderIsAFunctionOfSeedAndEpoch) {
  RandomSampler sampler(100, 7);
  sampler.set_epoch(3);
  const Indices order = sampler.indices();
  EXPECT_EQ(sampler.indices(), order);
  RandomSampler resumed(100, 7);
  resumed.set_epoch(3);
  EXPECT_EQ(resumed.indices(), order);
}

// If the epoch were added to the seed, epoch 1 of seed 0 would be epoch 0 of seed 1.
TEST(RandomSamplerTest, EverySeedAndEpochHasItsOwnOrder) {
  std::set<Indices> orders;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::int64_t epoch = 0; epoch < 10; ++epoch)
      orders.insert(RandomSampler(100, seed).draw(epoch));
  EXPECT_EQ(orders.size(), 100u);
}

TEST(RandomSamplerTest, EveryOrderIsEquallyLikely) {
  std::map<Indices, int> counts;
  constexpr int kEpochs = 24'000;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) ++counts[RandomSampler(4).draw(epoch)];
  ASSERT_EQ(counts.size(), 24u);
  // 1000 each, with a binomial deviation of 31.
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, kEpochs / 24, 5 * 31);
}

TEST(SamplerTest, ThrowsForNegativeNumbers) {
  expect_throws<ValueError>([] { SequentialSampler(-1); },
                            "SequentialSampler: num_samples must not be negative; got -1");
  expect_throws<ValueError>([] { RandomSampler(-1); },
                            "RandomSampler: num_samples must not be negative; got -1");
  expect_throws<ValueError>([] { RandomSampler(3).set_epoch(-2); },
                            "set_epoch: epoch must not be negative; got -2");
}

}  // namespace
}  // namespace ringrad
