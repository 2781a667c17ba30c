// eps and momentum of all normalizations, operators and layers.

#include "ringrad/autograd/norm/check_norm.h"

#include <gtest/gtest.h>

#include <limits>

#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/autograd/norm/group_norm.h"
#include "ringrad/autograd/norm/row_norm.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/group_norm.h"
#include "ringrad/nn/layers/row_norm.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(CheckNormTest, EpsIsFiniteAndNotNegative) {
  const Tensor x = ones({2, 4, 3});
  for (const double eps : {-1e-5, kNaN, kInfinity, -kInfinity, 1e39}) {
    const std::string text = concat("eps must be finite and not negative; got ", eps);
    expect_throws<ValueError>([&] { layer_norm(x, {}, {}, eps); }, "layer_norm: " + text);
    expect_throws<ValueError>([&] { rms_norm(x, {}, eps); }, "rms_norm: " + text);
    expect_throws<ValueError>([&] { group_norm(x, 2, {}, {}, eps); }, "group_norm: " + text);
    expect_throws<ValueError>([&] { instance_norm(x, {}, {}, eps); }, "instance_norm: " + text);
    expect_throws<ValueError>([&] { batch_norm(x, {}, {}, {}, {}, {.eps = eps}); },
                              "batch_norm: " + text);
    expect_throws<ValueError>([&] { nn::LayerNorm(4, eps); }, "LayerNorm: " + text);
    expect_throws<ValueError>([&] { nn::RMSNorm(4, eps); }, "RMSNorm: " + text);
    expect_throws<ValueError>([&] { nn::GroupNorm(2, 4, eps); }, "GroupNorm: " + text);
    expect_throws<ValueError>([&] { nn::InstanceNorm2d(4, eps); }, "InstanceNorm2d: " + text);
    expect_throws<ValueError>([&] { nn::BatchNorm1d(4, {.eps = eps}); }, "BatchNorm1d: " + text);
    expect_throws<ValueError>([&] { nn::BatchNorm2d(4, {.eps = eps}); }, "BatchNorm2d: " + text);
  }
  EXPECT_EQ(rms_norm(full({2}, 3), {}, 0).to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(CheckNormTest, MomentumIsAShare) {
  const Tensor x = ones({2, 4}), mean = zeros({4}), var = ones({4});
  for (const double momentum : {-0.1, 1.1, kNaN, kInfinity}) {
    const std::string text = concat("momentum must be in [0, 1]; got ", momentum);
    expect_throws<ValueError>([&] { batch_norm(x, {}, {}, mean, var, {.momentum = momentum}); },
                              "batch_norm: " + text);
    expect_throws<ValueError>([&] { nn::BatchNorm1d(4, {.momentum = momentum}); },
                              "BatchNorm1d: " + text);
    expect_throws<ValueError>([&] { nn::BatchNorm2d(4, {.momentum = momentum}); },
                              "BatchNorm2d: " + text);
  }
  EXPECT_EQ(mean.to_vector<float>(), std::vector<float>(4, 0));  // nothing was written
  batch_norm(x, {}, {}, mean, var, {.momentum = 1});
  EXPECT_EQ(mean.to_vector<float>(), std::vector<float>(4, 1));
}

TEST(CheckNormTest, RunningStatisticsAreConstants) {
  const Tensor x = ones({2, 4}), zero = zeros({4}), one = ones({4});
  for (const bool training : {true, false}) {
    expect_throws<AutogradError>(
        [&] { batch_norm(x, {}, {}, zeros({4}).set_requires_grad(), one, {.training = training}); },
        "running_mean has no derivative here");
    expect_throws<AutogradError>(
        [&] { batch_norm(x, {}, {}, zero, ones({4}).set_requires_grad(), {.training = training}); },
        "running_var has no derivative here");
  }
}

}  // namespace
}  // namespace ringrad
