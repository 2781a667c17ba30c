#include "ringrad/parallel/plan/predict/gradient_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace ringrad {
namespace {

// Parameters of these sizes, one after another in one arena.
std::vector<ParameterPlace> places_of(const std::vector<std::int64_t>& bytes,
                                      std::size_t arena = 0) {
  std::vector<ParameterPlace> places;
  std::int64_t end = 0;
  for (const std::int64_t count : bytes) {
    places.push_back({arena, end, end + count});
    end += count;
  }
  return places;
}

TEST(GradientBucketsTest, EachParameterIsInOneBucketWhateverTheOrder) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<ParameterPlace> places;
    for (std::size_t arena = 0; arena < 1 + random() % 3; ++arena) {
      std::vector<std::int64_t> bytes(1 + random() % 20);
      for (std::int64_t& count : bytes) count = 1 + static_cast<std::int64_t>(random() % 5000);
      const auto more = places_of(bytes, arena);
      places.insert(places.end(), more.begin(), more.end());
    }
    std::vector<int> arrival(places.size());
    std::iota(arrival.begin(), arrival.end(), 0);
    std::shuffle(arrival.begin(), arrival.end(), random);
    if (trial % 4 == 0) arrival.clear();
    const BucketSizes sizes{1 + static_cast<std::int64_t>(random() % 3000),
                            1 + static_cast<std::int64_t>(random() % 9000)};
    std::vector<int> seen(places.size(), 0);
    int last = -1;
    for (const BucketRange& bucket : make_buckets(places, sizes, arrival)) {
      ASSERT_LT(bucket.begin, bucket.end);
      EXPECT_EQ(places[bucket.begin].arena, places[bucket.end - 1].arena);
      int complete = -1;
      for (std::size_t p = bucket.begin; p < bucket.end; ++p) {
        ++seen[p];
        complete = std::max(complete,
                            arrival.empty() ? static_cast<int>(places.size() - 1 - p) : arrival[p]);
      }
      EXPECT_GT(complete, last) << "buckets come as they are complete";
      last = complete;
    }
    EXPECT_EQ(seen, std::vector<int>(places.size(), 1));
  }
}

TEST(GradientBucketsTest, AreClosedAtTheirSizeFromTheBack) {
  const auto buckets = make_buckets(places_of({10, 10, 10, 10, 10, 10}), {10, 25});
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0], (BucketRange{5, 6}));  // the first is smaller
  EXPECT_EQ(buckets[1], (BucketRange{2, 5}));
  EXPECT_EQ(buckets[2], (BucketRange{0, 2}));
}

// The encoder was registered after the decoder, but runs before it.
TEST(GradientBucketsTest, WhatArrivesLaterIsInABucketOfItsOwn) {
  const std::vector<std::int64_t> bytes(40, 100);
  std::vector<int> arrival(40);
  for (int i = 0; i < 20; ++i) {
    arrival[static_cast<std::size_t>(i)] = 19 - i;       // decoder
    arrival[static_cast<std::size_t>(20 + i)] = 39 - i;  // encoder
  }
  const auto buckets = make_buckets(places_of(bytes), {3000, 3000}, arrival);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0], (BucketRange{0, 20}));
  EXPECT_EQ(buckets[1], (BucketRange{20, 40}));
}

// No other size costs less by the formula of the header.
TEST(GradientBucketsTest, SizesMinimiseTheModel) {
  const double n = 8e6, alpha = 20e-6, beta = 1e-9;
  const auto cost = [&](double b) { return n / b * alpha + b * beta; };
  const BucketSizes best = fitting_bucket_sizes(static_cast<std::int64_t>(n), alpha, beta);
  for (const double factor : {0.5, 0.9, 1.1, 2.0})
    EXPECT_LT(cost(static_cast<double>(best.bytes)),
              cost(factor * static_cast<double>(best.bytes)));
  EXPECT_LT(best.first_bytes, best.bytes);
  EXPECT_GT(fitting_bucket_sizes(0, 0, beta).bytes, 0);
}

}  // namespace
}  // namespace ringrad
