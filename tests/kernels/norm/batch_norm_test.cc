#include "ringrad/kernels/norm/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/normalization.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr double kEps = 1e-5;
constexpr double kSlack = 256;

// Stripes narrower and wider than a row, with and without a remainder, in one chunk and in several;
// on a GPU, planes for a few threads, for a block, and for several blocks.
const Shape kShapes[] = {{7, 3},      {5, 4, 6},       {2, 16, 5, 5}, {3, 5, 4, 7},
                         {2, 300, 3}, {9, 16, 31, 31}, {700, 64},     {2, 3, 2, 2, 3},
                         {9, 1030},   {1, 2, 90, 103}};

/// Positions of channel c's values in a row-major (B, C, ...) tensor.
std::vector<std::size_t> positions(const Shape& shape, std::int64_t c) {
  const std::int64_t inner = shape.numel() / shape[0] / shape[1];
  std::vector<std::size_t> result;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t i = 0; i < inner; ++i)
      result.push_back(static_cast<std::size_t>((b * shape[1] + c) * inner + i));
  return result;
}

std::vector<double> pick(const std::vector<double>& values, const std::vector<std::size_t>& at) {
  std::vector<double> picked;
  for (const std::size_t i : at) picked.push_back(values[i]);
  return picked;
}

struct Inputs {
  Tensor x, weight, bias, grad;
  bool relu = false;
  Tensor residual{};
};

struct Expected {
  std::vector<double> mean, var, y, grad_x, grad_residual, grad_weight, grad_bias;
};

Expected reference_of(const Inputs& in) {
  const auto xs = in.x.to_vector<double>(), gs = in.grad.to_vector<double>();
  const auto scale = in.weight.to_vector<double>(), offset = in.bias.to_vector<double>();
  const auto added =
      in.residual.defined() ? in.residual.to_vector<double>() : std::vector<double>(xs.size(), 0.0);
  Expected expected;
  expected.y.resize(xs.size());
  expected.grad_x.resize(xs.size());
  expected.grad_residual.resize(xs.size());
  for (std::int64_t c = 0; c < in.x.shape()[1]; ++c) {
    const auto at = positions(in.x.shape(), c);
    const auto channel = static_cast<std::size_t>(c);
    const auto normalized = reference::normalize(pick(xs, at), kEps);
    std::vector<double> g = pick(gs, at);
    double grad_weight = 0, grad_bias = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      double& y = expected.y[at[i]];
      y = normalized.xhat[i] * scale[channel] + offset[channel] + added[at[i]];
      if (in.relu && y <= 0) y = g[i] = 0;
      expected.grad_residual[at[i]] = g[i];
      grad_weight += g[i] * normalized.xhat[i];
      grad_bias += g[i];
      g[i] *= scale[channel];
    }
    const auto grad_x = reference::normalize_backward(normalized, g);
    for (std::size_t i = 0; i < at.size(); ++i) expected.grad_x[at[i]] = grad_x[i];
    expected.mean.push_back(normalized.mean);
    expected.var.push_back(normalized.var);
    expected.grad_weight.push_back(grad_weight);
    expected.grad_bias.push_back(grad_bias);
  }
  return expected;
}

void expect_forward_and_backward(const Inputs& in) {
  const auto& [x, weight, bias, grad, relu, residual] = in;
  const Expected expected = reference_of(in);
  const double rows = static_cast<double>(x.numel() / x.shape()[1]);
  const Moments moments = batch_norm_moments(x);
  expect_close(moments.mean, expected.mean);
  expect_close(moments.var, expected.var);
  const Tensor rstd = batch_norm_rstd(moments.var, kEps);
  expect_close(batch_norm_apply(x, moments.mean, rstd, weight, bias, relu, residual), expected.y,
               kSlack);

  const BatchNormSaved saved{x, weight, bias, moments.mean, rstd, relu, residual};
  const BatchNormSums sums = batch_norm_backward_sums(grad, saved);
  const double sum_slack = kSlack * std::sqrt(rows);
  expect_close(sums.grad, expected.grad_bias, sum_slack);
  expect_close(sums.grad_xhat, expected.grad_weight, sum_slack);
  const BatchNormGradients gradients = batch_norm_backward_apply(grad, saved, sums, rows);
  expect_close(gradients.grad_input, expected.grad_x, kSlack);
  EXPECT_EQ(gradients.grad_residual.defined(), residual.defined());
  if (residual.defined()) expect_close(gradients.grad_residual, expected.grad_residual, 0);
}

TEST(BatchNormTest, IsTheDefinitionWithItsGradient) {
  std::uint64_t seed = 0;
  for (const Shape& shape : kShapes)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        const Team team(threads);
        Random random(seed++);
        const Shape vector{shape[1]};
        // ReLU is checked at double precision, where rounding cannot move a value across zero.
        const bool relu = dtype == DType::float64 && threads == 2;
        const Tensor x = random.tensor(shape, dtype), grad = random.tensor(shape, dtype);
        const Tensor weight = random.tensor(vector, dtype), bias = random.tensor(vector, dtype);
        expect_forward_and_backward({x, weight, bias, grad, relu});
        expect_forward_and_backward(
            {random.strided(x), random.strided(weight), bias, random.strided(grad), relu});
        if (x.dims() == 4)
          expect_forward_and_backward(
              {to_layout(x, Layout::channels_last), weight, bias, grad, relu});
      }
}

// Numbers large enough to decide the sign of y in every dtype.
Tensor decisive(Random& random, const Shape& shape, DType dtype) {
  const Tensor sign = unary(ops::Sign(), random.tensor(shape, dtype));
  return binary<ops::Mul>(sign, random.tensor(shape, 8, 12, dtype));
}

TEST(BatchNormTest, AddsAResidualAndHandsOutItsGradient) {
  std::uint64_t seed = 100;
  for (const Shape& shape : kShapes)
    for (const DType dtype : kFloats)
      for (const bool relu : {false, true}) {
        Random random(seed++);
        const Tensor x = random.tensor(shape, dtype), grad = random.tensor(shape, dtype),
                     residual = decisive(random, shape, dtype);
        const Tensor weight = random.tensor({shape[1]}, dtype), bias = random.tensor({shape[1]});
        expect_forward_and_backward({x, weight, bias, grad, relu, residual});
        if (!relu) continue;
        expect_forward_and_backward({x, weight, bias, grad, relu, random.strided(residual)});
        if (x.dims() != 4) continue;
        const auto last = [](const Tensor& t) { return to_layout(t, Layout::channels_last); };
        expect_forward_and_backward({last(x), weight, bias, grad, relu, residual});
        expect_forward_and_backward({x, weight, bias, last(grad), relu, last(residual)});
        expect_forward_and_backward({last(x), weight, bias, last(grad), relu, last(residual)});
      }
}

// Where the residual cancels the normalised value, rounding alone decides the sign of y. A backward
// pass that computed y differently from the forward pass would pass the wrong gradients.
TEST(BatchNormTest, ForwardAndBackwardAgreeOnTheSignOfWhatNearlyCancels) {
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      Random random(7);
      const Tensor x = to_layout(random.tensor({4, 16, 9, 9}, dtype), layout);
      const Tensor weight = random.tensor({16}), bias = random.tensor({16});
      const Moments moments = batch_norm_moments(x);
      const Tensor rstd = batch_norm_rstd(moments.var, kEps);
      const Tensor residual =
          unary(ops::Neg(), batch_norm_apply(x, moments.mean, rstd, weight, bias, false));
      const auto y =
          batch_norm_apply(x, moments.mean, rstd, weight, bias, true, residual).to_vector<float>();
      const BatchNormSaved saved{x, weight, bias, moments.mean, rstd, true, residual};
      const Tensor grad = ones(x.shape(), {.dtype = dtype});
      const BatchNormSums sums = batch_norm_backward_sums(grad, saved);
      const auto passed =
          batch_norm_backward_apply(grad, saved, sums, 0).grad_residual.to_vector<float>();
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(passed[i] != 0, y[i] > 0);
      const auto count = std::count_if(y.begin(), y.end(), [](float value) { return value > 0; });
      const auto sum = sums.grad.to_vector<float>();
      EXPECT_EQ(std::accumulate(sum.begin(), sum.end(), 0.0), static_cast<double>(count));
      if (dtype == DType::float32) {
        EXPECT_EQ(count, 0) << "the same value must round alike";
      }
    }
}

TEST(BatchNormTest, AResidualMayBeTheInputItself) {
  Random random(8);
  const Tensor x = random.tensor({3, 4, 5, 5}, DType::float64);
  const Tensor weight = random.tensor({4}), bias = random.tensor({4});
  const Tensor grad = random.tensor({3, 4, 5, 5}, DType::float64);
  expect_forward_and_backward({x, weight, bias, grad, true, x});
}

TEST(BatchNormTest, MemoryOrderDoesNotMatterAndIsKept) {
  Random random(1);
  const Tensor x = random.tensor({3, 8, 5, 6}), nhwc = to_layout(x, Layout::channels_last);
  const Moments moments = batch_norm_moments(x), same = batch_norm_moments(nhwc);
  expect_same_bits(same.mean, moments.mean);
  expect_same_bits(same.var, moments.var);
  const Tensor rstd = batch_norm_rstd(moments.var, kEps);
  const Tensor y = batch_norm_apply(x, moments.mean, rstd, {}, {}, false);
  const Tensor z = batch_norm_apply(nhwc, moments.mean, rstd, {}, {}, false);
  expect_same_bits(z, y);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_TRUE(z.is_channels_last());
}

TEST(BatchNormTest, ReluIsTheMaximumWithZeroOfTheSameBits) {
  Random random(2);
  const Tensor x = random.tensor({4, 16, 9, 9}), weight = random.tensor({16});
  const Moments moments = batch_norm_moments(x);
  const Tensor rstd = batch_norm_rstd(moments.var, kEps);
  const Tensor plain = batch_norm_apply(x, moments.mean, rstd, weight, {}, false);
  const Tensor cut = batch_norm_apply(x, moments.mean, rstd, weight, {}, true);
  // The gradient passes exactly where the output is positive.
  const BatchNormSaved saved{x, weight, {}, moments.mean, rstd, true};
  const Tensor passed =
      batch_norm_backward_apply(ones(x.shape()), saved, {zeros({16}), zeros({16})}, 0).grad_input;
  const auto before = plain.to_vector<float>(), after = cut.to_vector<float>(),
             gradient = passed.to_vector<float>();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i], std::max(before[i], 0.f));
    EXPECT_EQ(gradient[i] != 0, before[i] > 0);
  }
}

TEST(BatchNormTest, LosesNoDigitsToALargeMean) {
  Random random(3);
  const Tensor shifted = random.tensor({4096, 2}, 9'998, 10'002);
  const Moments moments = batch_norm_moments(shifted);
  expect_close(moments.var, batch_norm_moments(cast(shifted, DType::float64)).var, 16);
}

TEST(BatchNormTest, BitsDoNotDependOnTheNumberOfThreads) {
  Random random(4);
  const Tensor x = random.tensor({50, 16, 20, 20});
  const auto moments = [&](int threads) {
    const Team team(threads);
    return batch_norm_moments(x);
  };
  const Moments one = moments(1), three = moments(3);
  expect_same_bits(one.mean, three.mean);
  expect_same_bits(one.var, three.var);
}

TEST(BatchNormTest, InEvaluationTheGradientIsOnlyScaled) {
  Random random(5);
  const Tensor x = random.tensor({3, 2, 4}), grad = random.tensor({3, 2, 4});
  const BatchNormSaved saved{x, tensor({2., 3.}), {}, tensor({0., 1.}), tensor({0.5, 4}), false};
  std::vector<double> expected = grad.to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= i / 4 % 2 == 0 ? 1 : 12;
  const auto sums = batch_norm_backward_sums(grad, saved);
  expect_close(batch_norm_backward_apply(grad, saved, sums, 0).grad_input, expected);
}

TEST(BatchNormTest, RunningStatisticsMoveTowardsUnbiasedMoments) {
  const Tensor mean = zeros({2}), var = ones({2}, {.dtype = DType::float64});
  const auto version = mean.version();
  batch_norm_update_running({tensor({10., 20.}), tensor({4., 8.})}, 5, 0.1, mean, var);
  expect_close(mean, {1, 2});
  expect_close(var, {0.9 + 0.1 * 5, 0.9 + 0.1 * 10});
  EXPECT_GT(mean.version(), version);
}

TEST(BatchNormTest, ThrowsForBadShapes) {
  const Tensor x = zeros({2, 3, 4}), three = zeros({3}), two = zeros({2});
  expect_throws<ShapeError>([&] { batch_norm_moments(zeros({4})); },
                            "batch_norm: x must be (B, C, ...); got shape (4,)");
  expect_throws<ShapeError>(
      [&] {
        batch_norm_moments(zeros({0, 3}));
      },
      "batch_norm: a mean needs at least one value per channel");
  expect_throws<ShapeError>([&] { batch_norm_apply(x, three, three, two, {}, false); },
                            "weight must have one value per channel; got (2,) for x (2, 3, 4)");
  const auto add = [&](const Tensor& residual) {
    batch_norm_apply(x, three, three, {}, {}, true, residual);
  };
  expect_throws<ShapeError>([&] { add(zeros({3})); },
                            "the residual must have the shape of x (2, 3, 4); got (3,)");
  expect_throws<DTypeError>([&] { add(zeros(x.shape(), {.dtype = DType::float64})); }, "float64");
  expect_throws<DeviceError>([&] { add(zeros(x.shape(), {.device = "cpu:1"})); }, "cpu:1");
  expect_throws<ShapeError>(
      [&] {
        batch_norm_backward_sums(zeros({2, 3}), {x, {}, {}, three, three});
      },
      "batch_norm_backward: the gradient must have the shape of x (2, 3, 4); got (2, 3)");
  expect_throws<ShapeError>(
      [&] {
        batch_norm_update_running({three, three}, 2, 0.1, two, two);
      },
      "running statistics must have one value per channel; got (2,) for (3,)");
  expect_throws<DTypeError>(
      [&] {
        batch_norm_moments(zeros({2, 3}, {.dtype = DType::int64}));
      },
      "batch_norm: needs a floating dtype; got int64");
}

}  // namespace
}  // namespace ringrad::kernels
