#include "ringrad/data/weighted_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using Indices = std::vector<std::int64_t>;

// Five binomial deviations around `probability`.
void expect_frequency(std::int64_t count, std::int64_t draws, double probability) {
  const auto n = static_cast<double>(draws);
  EXPECT_NEAR(static_cast<double>(count), n * probability,
              5 * std::sqrt(n * probability * (1 - probability)));
}

TEST(WeightedRandomSamplerTest, DrawsInProportionToTheWeights) {
  const std::vector<double> weights = {1, 0, 3, 0.5, 0, 5.5};
  constexpr std::int64_t kDraws = 100'000;
  const Indices indices = WeightedRandomSampler(weights, kDraws).indices();
  ASSERT_EQ(std::ssize(indices), kDraws);
  for (std::size_t i = 0; i < weights.size(); ++i)
    expect_frequency(std::count(indices.begin(), indices.end(), i), kDraws, weights[i] / 10);
}

// P(first i, then j) = w_i / W * w_j / (W - w_i).
TEST(WeightedRandomSamplerTest, WithoutReplacementDrawsAmongTheRest) {
  const std::vector<double> weights = {1, 2, 0, 5};
  const WeightedRandomSampler sampler(weights, 2, Replacement::without);
  constexpr std::int64_t kEpochs = 20'000;
  std::map<Indices, std::int64_t> counts;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) ++counts[sampler.draw(epoch)];
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [pair, count] : counts) {
    const double first = weights[static_cast<std::size_t>(pair[0])];
    const double second = weights[static_cast<std::size_t>(pair[1])];
    expect_frequency(count, kEpochs, first / 8 * second / (8 - first));
  }
}

TEST(WeightedRandomSamplerTest, WithoutReplacementNothingRepeats) {
  std::vector<double> weights(500);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i % 10);
  for (const std::int64_t draws : {1, 100, 450}) {
    const Indices indices = WeightedRandomSampler(weights, draws, Replacement::without).indices();
    EXPECT_EQ(std::ssize(std::set(indices.begin(), indices.end())), draws);
    for (const std::int64_t index : indices) EXPECT_NE(index % 10, 0);
  }
}

TEST(WeightedRandomSamplerTest, NeverDrawsWeightZeroWhateverTheScale) {
  for (const double scale : {1e-300, 1.0, 1e300}) {
    const WeightedRandomSampler sampler({0, scale, 0, 2 * scale, 0}, 1000);
    for (const std::int64_t index : sampler.indices()) EXPECT_TRUE(index == 1 || index == 3);
  }
}

TEST(WeightedRandomSamplerTest, DrawsAreAFunctionOfSeedAndEpoch) {
  WeightedRandomSampler sampler({1, 2, 3}, 50, Replacement::with, 4);
  const Indices first = sampler.indices();
  EXPECT_EQ(sampler.indices(), first);
  sampler.set_epoch(1);
  EXPECT_NE(sampler.indices(), first);
  EXPECT_NE(WeightedRandomSampler({1, 2, 3}, 50, Replacement::with, 5).indices(), first);
}

TEST(WeightedRandomSamplerTest, RanksShareTheDrawsOfOne) {
  const std::vector<double> weights = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (const auto replacement : {Replacement::with, Replacement::without})
    for (int num_replicas = 1; num_replicas <= 8; ++num_replicas) {
      const Indices whole = WeightedRandomSampler(weights, 10, replacement, 3).draw(2);
      for (int rank = 0; rank < num_replicas; ++rank) {
        const auto share = distributed_weighted_sampler(
            weights, 10, {num_replicas, rank, Tail::keep}, replacement, 3);
        Indices expected;
        for (std::size_t i = static_cast<std::size_t>(rank); i < whole.size();
             i += static_cast<std::size_t>(num_replicas))
          expected.push_back(whole[i]);
        EXPECT_EQ(share.draw(2), expected);
      }
    }
}

TEST(WeightedRandomSamplerTest, ThrowsForInvalidWeights) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_throws<ValueError>(
      [] {
        WeightedRandomSampler({1, -2}, 1);
      },
      "must be finite and not negative; got -2 for sample 1");
  expect_throws<ValueError>([] { WeightedRandomSampler({std::nan("")}, 1); },
                            "got nan for sample 0");
  expect_throws<ValueError>(
      [] {
        WeightedRandomSampler({1, kInfinity}, 1);
      },
      "got inf for sample 1");
  expect_throws<ValueError>([] { WeightedRandomSampler({}, 1); },
                            "the sum of weights must be positive and finite; got 0 for 0 weights");
  expect_throws<ValueError>([] { WeightedRandomSampler({0, 0}, 1); }, "got 0 for 2 weights");
  expect_throws<ValueError>(
      [] {
        WeightedRandomSampler({1e308, 1e308}, 1);
      },
      "got inf for 2 weights");
}

TEST(WeightedRandomSamplerTest, ThrowsForAnImpossibleNumberOfDraws) {
  expect_throws<ValueError>(
      [] {
        WeightedRandomSampler({1, 2}, 0);
      },
      "num_draws must be at least 1; got 0");
  expect_throws<ValueError>(
      [] {
        WeightedRandomSampler({1, 0, 2}, 3, Replacement::without);
      },
      "got 2 positive weights and 3 draws");
  expect_throws<ValueError>(
      [] {
        distributed_weighted_sampler({1, 2}, 3, {4, 0});
      },
      "got 4 replicas and 3 samples");
}

TEST(WeightedRandomSamplerTest, DrawsInProportionToTheTiniestWeights) {
  std::vector<int> counts(10), first(10);
  const std::vector<double> least(10, 5e-324);
  for (const auto i : WeightedRandomSampler(least, 10'000).draw(0))
    ++counts[static_cast<std::size_t>(i)];
  const WeightedRandomSampler without(least, 10, Replacement::without);
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch)
    ++first[static_cast<std::size_t>(without.draw(epoch).front())];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 5 * 30);  // a binomial deviation is 30
  for (const int count : first) EXPECT_NEAR(count, 100, 5 * 9.5);
}

}  // namespace
}  // namespace ringrad
