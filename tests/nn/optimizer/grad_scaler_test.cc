#include "ringrad/nn/optimizer/grad_scaler.h"

#include <cmath>
#include <limits>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using nn::GradScaler;
using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;

Tensor parameter() {
  const Tensor x = tensor({1., -2., 3.}) + 0;
  return x.set_requires_grad();
}

TEST(GradScalerTest, ScalingByAPowerOfTwoChangesNoStep) {
  const Tensor plain = parameter(), scaled = parameter();
  nn::SGD a({plain}, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  nn::SGD b({scaled}, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  GradScaler scaler;
  for (int step = 0; step < 5; ++step) {
    a.zero_grad();
    sum(square(plain)).backward();
    a.step();
    b.zero_grad();
    scaler.scale(sum(square(scaled))).backward();
    EXPECT_TRUE(scaler.step(b));
    scaler.update();
    expect_same_bits(scaled, plain);
  }
}

TEST(GradScalerTest, AStepWithInfiniteGradientsChangesNothing) {
  const Tensor x = parameter();
  nn::Adam optimizer({x}, {.learning_rate = 0.1});
  GradScaler scaler({.initial_scale = 8});
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    optimizer.zero_grad();
    sum(x * tensor({1, bad, 1})).backward();
    EXPECT_FALSE(scaler.step(optimizer));
    scaler.update();
    expect_close(x, {1, -2, 3});
  }
  EXPECT_EQ(scaler.scale(), 2);
}

// The square of 1e200 is infinite, and 1e200 is not.
TEST(GradScalerTest, LargeFiniteGradientsAreFinite) {
  const Tensor x = zeros({2}, {.dtype = DType::float64}).set_requires_grad();
  nn::SGD optimizer({x}, {.learning_rate = 1});
  GradScaler scaler({.initial_scale = 2});
  sum(x * tensor({1e200, -1e308}, DType::float64)).backward();
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{-5e199, 5e307}));
}

TEST(GradScalerTest, TheScaleGrowsAfterGoodStepsOnly) {
  const Tensor x = parameter();
  nn::SGD optimizer({x}, {.learning_rate = 0});
  GradScaler scaler({.initial_scale = 4, .growth_interval = 3});
  const auto step = [&](float factor) {
    optimizer.zero_grad();
    scaler.scale(sum(x * factor)).backward();
    scaler.step(optimizer);
    scaler.update();
    return scaler.scale();
  };
  EXPECT_EQ(step(1), 4);
  EXPECT_EQ(step(1), 4);
  EXPECT_EQ(step(1), 8);
  EXPECT_EQ(step(1), 8);
  EXPECT_EQ(step(std::numeric_limits<float>::infinity()), 4);
  EXPECT_EQ(step(1), 4);
  EXPECT_EQ(step(1), 4);
  EXPECT_EQ(step(1), 8);
}

TEST(GradScalerTest, TheScaleNeitherVanishesNorOverflows) {
  const Tensor x = parameter();
  nn::SGD optimizer({x}, {.learning_rate = 0.1});
  GradScaler scaler({.growth_interval = 1});
  for (int i = 0; i < 2000; ++i) {
    scaler.report(false);
    scaler.update();
  }
  EXPECT_EQ(scaler.scale(), 0x1p-24);
  scaler.scale(sum(x)).backward();
  EXPECT_TRUE(scaler.step(optimizer));
  expect_close(x, {0.9, -2.1, 2.9});
  for (int i = 0; i < 2000; ++i) scaler.update();
  EXPECT_EQ(scaler.scale(), 0x1p120);
  optimizer.zero_grad();
  scaler.scale(sum(x)).backward();
  EXPECT_TRUE(scaler.step(optimizer));
  expect_close(x, {0.8, -2.2, 2.8});
}

TEST(GradScalerTest, ClipsTheDividedGradients) {
  const Tensor x = parameter();
  nn::SGD optimizer({x}, {.learning_rate = 1});
  GradScaler scaler({.initial_scale = 1024});
  const auto step = [&](const std::vector<float>& gradient, double max_norm) {
    optimizer.zero_grad();
    scaler.scale(sum(x * tensor(gradient))).backward();
    return scaler.step(optimizer, max_norm);
  };
  EXPECT_TRUE(step({3, 0, -4}, 10));
  expect_close(x, {-2, -2, 7});
  EXPECT_TRUE(step({3, 0, -4}, 2.5));
  expect_close(x, {-3.5, -2, 9});
  EXPECT_FALSE(step({3, INFINITY, -4}, 2.5));
  expect_close(x, {-3.5, -2, 9});
  scaler.update();
  EXPECT_EQ(scaler.scale(), 512);
  expect_throws<ValueError>([&] { scaler.step(optimizer, 0.); }, "must be positive; got 0");
}

// A gradient of 2^-30 is zero in float16; scaled by 2^16 it is not.
TEST(GradScalerTest, SavesGradientsThatFloat16CannotHold) {
  const auto gradient_reaches = [](bool scaled) {
    const Tensor w = zeros({4, 4});
    w.set_requires_grad();
    nn::SGD optimizer({w}, {.learning_rate = 1});
    GradScaler scaler;
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast mixed(DType::float16);
      loss = sum(to(matmul(ones({4, 4}), w), DType::float32)) * 0x1p-30;
    }
    if (scaled) {
      scaler.scale(loss).backward();
      scaler.step(optimizer);
    } else {
      loss.backward();
      optimizer.step();
    }
    return sum(abs(w.detach())).item() > 0;
  };
  EXPECT_FALSE(gradient_reaches(false));
  EXPECT_TRUE(gradient_reaches(true));
}

TEST(GradScalerTest, RefusesOptionsThatMakeNoSense) {
  expect_throws<ValueError>([] { GradScaler({.initial_scale = 0}); }, "initial_scale > 0");
  expect_throws<ValueError>([] { GradScaler({.growth = 1}); }, "growth > 1");
  expect_throws<ValueError>([] { GradScaler({.initial_scale = INFINITY}); }, "all finite; got inf");
  expect_throws<ValueError>([] { GradScaler({.initial_scale = NAN}); }, "all finite; got nan");
  expect_throws<ValueError>([] { GradScaler({.growth = INFINITY}); }, "inf");
  expect_throws<ValueError>([] { GradScaler({.backoff = NAN}); }, "nan");
  expect_throws<ValueError>([] { GradScaler({.backoff = 1}); }, "backoff < 1");
  expect_throws<ValueError>([] { GradScaler({.growth_interval = 0}); }, "growth_interval > 0");
}

}  // namespace
}  // namespace ringrad
