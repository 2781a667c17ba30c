#include "ringrad/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/embedding.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/tests/golden/golden.h"

namespace ringrad::nn {
namespace {

struct Statistics {
  double deviation = 0, largest = 0;
};

Statistics statistics_of(const Tensor& weight) {
  double total = 0, squares = 0, largest = 0;
  const auto values = weight.to_vector<double>();
  for (const double value : values) {
    total += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  const auto count = static_cast<double>(values.size());
  return {std::sqrt(squares / count - total * total / count / count), largest};
}

// Samples have 1e4 to 2e5 numbers. Their deviations agree to a few per cent, and the largest number
// of a uniform sample agrees more closely. The largest of a normal sample is itself random, so only
// its order of magnitude is compared.
void expect_like_pytorch(const Tensor& weight, const std::string& name, bool uniform) {
  const auto golden = ringrad::testing::read_golden("initialisers").at(name);
  const Statistics ours = statistics_of(weight);
  EXPECT_NEAR(ours.deviation / golden.at("deviation").item<double>(), 1, 0.03) << name;
  EXPECT_NEAR(ours.largest / golden.at("largest").item<double>(), 1, uniform ? 0.01 : 0.3) << name;
}

Tensor filter() { return empty({256, 64, 3, 3}); }

TEST(InitTest, LayersStartLikePyTorchs) {
  expect_like_pytorch(Linear(400, 600).weight, "Linear weight", true);
  expect_like_pytorch(Linear(400, 20000).bias, "Linear bias", true);
  expect_like_pytorch(Conv2d(64, 256).weight, "Conv2d weight", true);
  expect_like_pytorch(Embedding(600, 400).weight, "Embedding weight", false);
}

TEST(InitTest, InitialisersDrawLikePyTorchs) {
  Tensor weight = filter();
  kaiming_uniform_(weight);
  expect_like_pytorch(weight, "kaiming_uniform_", true);
  kaiming_normal_(weight, 0, Fan::out);
  expect_like_pytorch(weight, "kaiming_normal_ fan_out", false);
  xavier_uniform_(weight);
  expect_like_pytorch(weight, "xavier_uniform_", true);
  xavier_normal_(weight, 2);
  expect_like_pytorch(weight, "xavier_normal_", false);
}

TEST(InitTest, SameSeedGivesTheSameLayer) {
  manual_seed(5);
  const Linear first(7, 3);
  manual_seed(5);
  const Linear second(7, 3);
  EXPECT_EQ(first.weight.to_vector<float>(), second.weight.to_vector<float>());
  const Linear third(7, 3);
  EXPECT_NE(first.weight.to_vector<float>(), third.weight.to_vector<float>());
}

TEST(InitTest, EmptyWeightsStayEmpty) {
  for (const Shape& shape : {Shape{3, 0}, Shape{0, 3}, Shape{0, 0}}) {
    kaiming_uniform_(empty(shape));
    kaiming_normal_(empty(shape), 0, Fan::out);
    xavier_uniform_(empty(shape));
    xavier_normal_(empty(shape));
  }
}

TEST(InitTest, FansNeedTwoAxes) { EXPECT_THROW(kaiming_uniform_(empty({5})), ShapeError); }

}  // namespace
}  // namespace ringrad::nn
