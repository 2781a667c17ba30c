#include "kernels/batch_norm.h"

#include <cmath>

#include "kernels/copy.h"
#include "tests/kernels/team.h"
#include "tests/reference/normalization.h"
#include "tests/testing.h"

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

// Stripes narrower and wider than a row, with and without a rest, one chunk and several; on a GPU, planes
// for a few threads, a block, and several blocks.
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

struct Expected {
  std::vector<double> mean, var, y, grad_x, grad_weight, grad_bias;
};

Expected reference_of(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& grad,
                      bool relu) {
  const auto xs = x.to_vector<double>(), gs = grad.to_vector<double>();
  const auto scale = weight.to_vector<double>(), offset = bias.to_vector<double>();
  Expected expected;
  expected.y.resize(xs.size());
  expected.grad_x.resize(xs.size());
  for (std::int64_t c = 0; c < x.shape()[1]; ++c) {
    const auto at = positions(x.shape(), c);
    const auto channel = static_cast<std::size_t>(c);
    const auto normalized = reference::normalize(pick(xs, at), kEps);
    std::vector<double> g = pick(gs, at);
    double grad_weight = 0, grad_bias = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      double& y = expected.y[at[i]];
      y = normalized.xhat[i] * scale[channel] + offset[channel];
      if (relu && y <= 0) y = g[i] = 0;
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

void expect_forward_and_backward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& grad, bool relu) {
  const Expected expected = reference_of(x, weight, bias, grad, relu);
  const double rows = static_cast<double>(x.numel() / x.shape()[1]);
  const Moments moments = batch_norm_moments(x);
  expect_close(moments.mean, expected.mean);
  expect_close(moments.var, expected.var);
  const Tensor rstd = batch_norm_rstd(moments.var, kEps);
  expect_close(batch_norm_apply(x, moments.mean, rstd, weight, bias, relu), expected.y, kSlack);

  const BatchNormSaved saved{x, weight, bias, moments.mean, rstd, relu};
  const BatchNormSums sums = batch_norm_backward_sums(grad, saved);
  const double sum_slack = kSlack * std::sqrt(rows);
  expect_close(sums.grad, expected.grad_bias, sum_slack);
  expect_close(sums.grad_xhat, expected.grad_weight, sum_slack);
  expect_close(batch_norm_backward_apply(grad, saved, sums, rows), expected.grad_x, kSlack);
}

TEST(BatchNormTest, IsTheDefinitionWithItsGradient) {
  std::uint64_t seed = 0;
  for (const Shape& shape : kShapes)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        const Team team(threads);
        Random random(seed++);
        const Shape vector{shape[1]};
        // ReLU is checked where rounding cannot move a value across zero: at double precision.
        const bool relu = dtype == DType::float64 && threads == 2;
        const Tensor x = random.tensor(shape, dtype), grad = random.tensor(shape, dtype);
        const Tensor weight = random.tensor(vector, dtype), bias = random.tensor(vector, dtype);
        expect_forward_and_backward(x, weight, bias, grad, relu);
        expect_forward_and_backward(random.strided(x), random.strided(weight), bias,
                                    random.strided(grad), relu);
        if (x.dims() == 4)
          expect_forward_and_backward(to_layout(x, Layout::channels_last), weight, bias, grad,
                                      relu);
      }
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
      batch_norm_backward_apply(ones(x.shape()), saved, {zeros({16}), zeros({16})}, 0);
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
  const BatchNormSaved saved{x, tensor({2, 3}), {}, tensor({0, 1}), tensor({0.5, 4}), false};
  std::vector<double> expected = grad.to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= i / 4 % 2 == 0 ? 1 : 12;
  const auto sums = batch_norm_backward_sums(grad, saved);
  expect_close(batch_norm_backward_apply(grad, saved, sums, 0), expected);
}

TEST(BatchNormTest, RunningStatisticsMoveTowardsUnbiasedMoments) {
  const Tensor mean = zeros({2}), var = ones({2}, {.dtype = DType::float64});
  const auto version = mean.version();
  batch_norm_update_running({tensor({10, 20}), tensor({4, 8})}, 5, 0.1, mean, var);
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
