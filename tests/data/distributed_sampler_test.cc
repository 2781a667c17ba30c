#include "ringrad/data/distributed_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using Indices = std::vector<std::int64_t>;

// body(num_samples, num_replicas) for all sizes worth distinguishing: every remainder of few
// replicas, and the shortest and longest remainders of up to 64 replicas.
template <class Body>
void for_all_sizes(Body body) {
  for (int num_replicas = 1; num_replicas <= 8; ++num_replicas)
    for (std::int64_t n = num_replicas; n <= 40; ++n) body(n, num_replicas);
  for (int num_replicas = 9; num_replicas <= 64; ++num_replicas)
    for (const std::int64_t left : {0, 1, num_replicas / 2, num_replicas - 1})
      body(num_replicas + left, num_replicas);
}

std::vector<Indices> shares(std::int64_t n, int num_replicas, Tail tail, bool shuffle = true,
                            std::int64_t epoch = 0) {
  std::vector<Indices> result;
  for (int rank = 0; rank < num_replicas; ++rank) {
    const DistributedSampler sampler(n, {num_replicas, rank, tail}, shuffle, 5);
    result.push_back(sampler.draw(epoch));
    EXPECT_EQ(std::ssize(result.back()), sampler.size());
  }
  return result;
}

// How often each sample occurs in all shares together.
std::map<std::int64_t, int> visits(const std::vector<Indices>& shares) {
  std::map<std::int64_t, int> counts;
  for (const Indices& share : shares)
    for (const std::int64_t index : share) ++counts[index];
  return counts;
}

int count_of(const std::map<std::int64_t, int>& visits, int times) {
  return static_cast<int>(std::count_if(visits.begin(), visits.end(),
                                        [=](const auto& item) { return item.second == times; }));
}

// The ranks' k-th samples, rank by rank, for every k: the order in which cards are dealt.
Indices dealt(const std::vector<Indices>& shares) {
  Indices result;
  for (std::size_t k = 0; k < shares.front().size(); ++k)
    for (const Indices& share : shares)
      if (k < share.size()) result.push_back(share[k]);
  return result;
}

TEST(DistributedSamplerTest, PaddedSharesAreEqualAndRepeatTheFewest) {
  for_all_sizes([](std::int64_t n, int num_replicas) {
    SCOPED_TRACE(concat(n, " samples, ", num_replicas, " replicas"));
    for (const bool shuffle : {false, true}) {
      const auto all = shares(n, num_replicas, Tail::pad, shuffle);
      for (const Indices& share : all)
        EXPECT_EQ(std::ssize(share), (n + num_replicas - 1) / num_replicas);
      const auto times = visits(all);
      EXPECT_EQ(std::ssize(times), n);
      const auto repeated = std::ssize(all.front()) * num_replicas - n;
      EXPECT_EQ(count_of(times, 2), repeated);
      EXPECT_EQ(count_of(times, 1), n - repeated);
    }
  });
}

TEST(DistributedSamplerTest, DroppedTailLeavesEqualSharesWithoutRepeats) {
  for_all_sizes([](std::int64_t n, int num_replicas) {
    SCOPED_TRACE(concat(n, " samples, ", num_replicas, " replicas"));
    const auto all = shares(n, num_replicas, Tail::drop);
    for (const Indices& share : all) EXPECT_EQ(std::ssize(share), n / num_replicas);
    EXPECT_EQ(count_of(visits(all), 1), n / num_replicas * num_replicas);
    EXPECT_EQ(std::ssize(visits(all)), n / num_replicas * num_replicas);
  });
}

TEST(DistributedSamplerTest, KeptTailVisitsEverySampleOnce) {
  for_all_sizes([](std::int64_t n, int num_replicas) {
    SCOPED_TRACE(concat(n, " samples, ", num_replicas, " replicas"));
    const auto all = shares(n, num_replicas, Tail::keep);
    EXPECT_EQ(count_of(visits(all), 1), n);
    EXPECT_EQ(std::ssize(visits(all)), n);
    EXPECT_LE(std::ssize(all.front()) - std::ssize(all.back()), 1);
  });
}

// The property that makes training on n replicas equal to training on one with n times the batch.
TEST(DistributedSamplerTest, SharesDealOutTheOrderOfOneRank) {
  for_all_sizes([](std::int64_t n, int num_replicas) {
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      const Indices whole = RandomSampler(n, 5).draw(epoch);
      EXPECT_EQ(dealt(shares(n, num_replicas, Tail::keep, true, epoch)), whole);
      Indices padded = dealt(shares(n, num_replicas, Tail::pad, true, epoch));
      ASSERT_GE(padded.size(), whole.size());
      EXPECT_TRUE(std::equal(whole.begin(), whole.end(), padded.begin()));
      EXPECT_TRUE(std::equal(padded.begin() + n, padded.end(), whole.begin()));
    }
  });
}

// As torch.utils.data.DistributedSampler(range(7), num_replicas=3, rank, shuffle=False, drop_last).
TEST(DistributedSamplerTest, DealsAsPyTorchDoes) {
  EXPECT_EQ(shares(7, 3, Tail::pad, false),
            (std::vector<Indices>{{0, 3, 6}, {1, 4, 0}, {2, 5, 1}}));
  EXPECT_EQ(shares(7, 3, Tail::drop, false), (std::vector<Indices>{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(DistributedSamplerTest, AnotherEpochHasAnotherOrderOnAllRanksAlike) {
  DistributedSampler first(100, {2, 0}), second(100, {2, 1});
  const Indices before = first.indices();
  first.set_epoch(1);
  second.set_epoch(1);
  EXPECT_NE(first.indices(), before);
  EXPECT_EQ(dealt({first.indices(), second.indices()}), RandomSampler(100).draw(1));
}

TEST(DistributedSamplerTest, DealsAnySampler) {
  const DistributedSampler sampler(std::make_unique<SequentialSampler>(6), {2, 1});
  EXPECT_EQ(sampler.indices(), (Indices{1, 3, 5}));
}

TEST(DistributedSamplerTest, ThrowsForAnImpossibleNumberOfReplicas) {
  const char* const rule =
      "num_replicas must be at least 1 and at most the number of samples; got ";
  for (const int num_replicas : {0, -1, 11})
    expect_throws<ValueError>(
        [&] {
          DistributedSampler(10, {num_replicas, 0});
        },
        concat(rule, num_replicas, " replicas and 10 samples"));
  expect_throws<ValueError>(
      [&] {
        DistributedSampler(0, {1, 0});
      },
      concat(rule, "1 replicas and 0 samples"));
  expect_throws<ValueError>(
      [&] {
        DistributedSampler(-3, {1, 0});
      },
      "must not be negative; got -3");
}

TEST(DistributedSamplerTest, ThrowsForARankOutOfRange) {
  for (const int rank : {-1, 3})
    expect_throws<ValueError>(
        [&] {
          DistributedSampler(10, {3, rank});
        },
        concat("rank must be in [0, num_replicas); got rank ", rank, " of 3"));
}

TEST(DistributedSamplerTest, ThrowsForASamplerThatDrawsTooFew) {
  struct Short : Sampler {
    std::int64_t size() const override { return 10; }
    std::vector<std::int64_t> draw(std::int64_t) const override { return {0, 1, 2}; }
  };
  DistributedSampler sampler(std::make_unique<Short>(), {2, 1});
  sampler.set_position({0, 8});
  expect_throws<ValueError>([&] { sampler.indices(); }, "got 3 of 10");
}

}  // namespace
}  // namespace ringrad
