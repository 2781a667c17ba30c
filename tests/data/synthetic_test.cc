#include "ringrad/data/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;

// The class with the nearest centre on the unit circle: a linear classifier can compute it.
std::int64_t nearest_class(const float* point, std::int64_t num_classes) {
  const double turns = std::atan2(double{point[1]}, double{point[0]}) / (2 * std::numbers::pi);
  const auto nearest = std::llround(turns * static_cast<double>(num_classes));
  return (nearest + num_classes) % num_classes;
}

double share_of_nearest(const TensorDataset& set, std::int64_t num_classes) {
  const Tensor &input = set.tensors()[0], &target = set.tensors()[1];
  std::int64_t hits = 0;
  for (std::int64_t i = 0; i < set.size(); ++i)
    hits +=
        nearest_class(input.data<float>() + 2 * i, num_classes) == target.data<std::int64_t>()[i];
  return static_cast<double>(hits) / static_cast<double>(set.size());
}

TEST(SyntheticTest, ClassesTakeTurns) {
  for (const TensorDataset& set : {blobs(7, 3), spirals(7, 3)}) {
    EXPECT_EQ(set.tensors()[0].shape(), (Shape{7, 2}));
    EXPECT_EQ(set.tensors()[0].dtype(), DType::float32);
    EXPECT_EQ(set.tensors()[1].to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0}));
  }
}

TEST(SyntheticTest, NearestCentreTellsBlobsApartButNotSpirals) {
  EXPECT_EQ(share_of_nearest(blobs(1000, 4), 4), 1);
  const double spiral_share = share_of_nearest(spirals(1000, 2), 2);
  EXPECT_GT(spiral_share, 0.2);
  EXPECT_LT(spiral_share, 0.8);
}

// Without noise the angle follows from radius and class, so arms meet only in the centre.
TEST(SyntheticTest, SpiralArmsFollowTheirFormula) {
  const TensorDataset set = spirals(100, 2, 0, 0, 0.75);
  const float* point = set.tensors()[0].data<float>();
  for (std::int64_t i = 0; i < 100; ++i, point += 2) {
    const double radius = std::hypot(double{point[0]}, double{point[1]});
    EXPECT_NEAR(radius, static_cast<double>(i + 1) / 100, 1e-6);
    const double angle = 2 * std::numbers::pi * (0.75 * radius + 0.5 * static_cast<double>(i % 2));
    EXPECT_NEAR(double{point[0]}, radius * std::cos(angle), 1e-5);
    EXPECT_NEAR(double{point[1]}, radius * std::sin(angle), 1e-5);
  }
}

TEST(SyntheticTest, TheSeedDecidesTheNoise) {
  expect_same_bits(blobs(50, 2, 0.1, 3).tensors()[0], blobs(50, 2, 0.1, 3).tensors()[0]);
  EXPECT_NE(blobs(50, 2, 0.1, 3).tensors()[0].to_vector<float>(),
            blobs(50, 2, 0.1, 4).tensors()[0].to_vector<float>());
}

TEST(SyntheticTest, ThrowsForArgumentsOutOfRange) {
  expect_throws<ValueError>([] { blobs(-1); }, "blobs: samples and noise must not be negative");
  expect_throws<ValueError>([] { blobs(5, 0); }, "and 0 classes");
  expect_throws<ValueError>([] { spirals(5, 2, -1); }, "spirals: samples and noise must not be");
}

}  // namespace
}  // namespace ringrad
