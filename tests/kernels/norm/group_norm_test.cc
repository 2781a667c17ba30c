#include "ringrad/kernels/norm/group_norm.h"

#include <cmath>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/normalization.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr double kEps = 1e-5;

struct Expected {
  std::vector<double> y, mean, rstd, grad_x, grad_weight, grad_bias;
};

Expected reference_of(const Tensor& x, std::size_t groups, const Tensor& weight, const Tensor& bias,
                      const Tensor& grad) {
  const auto xs = x.to_vector<double>(), gs = grad.to_vector<double>();
  const auto scale = weight.to_vector<double>(), offset = bias.to_vector<double>();
  const std::size_t C = scale.size(), rows = static_cast<std::size_t>(x.shape()[0]) * groups;
  const std::size_t size = xs.size() / rows, positions = size / (C / groups);
  Expected expected;
  expected.grad_weight.resize(C);
  expected.grad_bias.resize(C);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto* first = &xs[row * size];
    const auto normalized = reference::normalize({first, first + size}, kEps);
    std::vector<double> g;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t c = (row * size + i) / positions % C;
      const double grad_y = gs[row * size + i];
      expected.y.push_back(normalized.xhat[i] * scale[c] + offset[c]);
      expected.grad_weight[c] += grad_y * normalized.xhat[i];
      expected.grad_bias[c] += grad_y;
      g.push_back(grad_y * scale[c]);
    }
    const auto grad_x = reference::normalize_backward(normalized, g);
    expected.grad_x.insert(expected.grad_x.end(), grad_x.begin(), grad_x.end());
    expected.mean.push_back(normalized.mean);
    expected.rstd.push_back(normalized.rstd);
  }
  return expected;
}

struct Case {
  Shape shape;
  std::int64_t groups;
};

TEST(GroupNormTest, IsTheDefinitionWithItsGradient) {
  const Case cases[] = {{{2, 6}, 2},        {{1, 1, 5}, 1},     {{3, 6, 4}, 3},
                        {{2, 6, 3, 5}, 1},  {{2, 6, 3, 5}, 6},  {{2, 4, 8, 8}, 2},
                        {{1, 8, 17, 9}, 4}, {{2, 3, 40, 41}, 1}};
  std::uint64_t seed = 1;
  for (const auto& [shape, groups] : cases)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(concat(shape, " ", groups, " groups ", dtype, " ", threads, " threads"));
        const Team team(threads);
        Random random(seed++);
        const Tensor x = random.strided(random.tensor(shape, dtype));
        const Tensor grad = random.strided(random.tensor(shape, dtype));
        const Tensor weight = random.tensor({shape[1]}, dtype);
        const Tensor bias = random.tensor({shape[1]}, dtype);
        const Expected expected =
            reference_of(x, static_cast<std::size_t>(groups), weight, bias, grad);
        const auto [y, mean, rstd] = group_norm(x, groups, weight, bias, kEps);
        expect_close(y, expected.y, 128);
        expect_close(mean, expected.mean, 128);
        expect_close(rstd, expected.rstd, 128);
        const auto gradients = group_norm_backward(grad, x, weight, mean, rstd);
        expect_close(gradients.input, expected.grad_x, 256);
        expect_close(gradients.weight, expected.grad_weight, 2048);
        expect_close(gradients.bias, expected.grad_bias, 2048);
      }
}

TEST(GroupNormTest, ChannelsLastStaysChannelsLastWithTheSameValues) {
  Random random(7);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor x = random.tensor({2, 6, 4, 5}, dtype), grad = random.tensor({2, 6, 4, 5}, dtype);
    const Tensor x_last = to_layout(x, Layout::channels_last);
    const Tensor weight = random.tensor({6}, dtype);
    const auto [y, mean, rstd] = group_norm(x, 3, weight, {}, kEps);
    const Tensor y_last = group_norm(x_last, 3, weight, {}, kEps).output;
    EXPECT_TRUE(y_last.is_channels_last());
    expect_close(y_last, y);
    const Tensor grad_last =
        group_norm_backward(to_layout(grad, Layout::channels_last), x_last, weight, mean, rstd)
            .input;
    EXPECT_TRUE(grad_last.is_channels_last());
    expect_close(grad_last, group_norm_backward(grad, x, weight, mean, rstd).input);
  }
}

// On a GPU the passes exchange means in float32, each rounded by at most half of offset * 2^-23.
TEST(GroupNormTest, ALargeOffsetCostsAtMostTheRoundingOfTheMean) {
  Random random(3);
  for (const double offset : {1e2, 1e4, 1e5}) {
    const double rounding = default_device().is_cuda() ? 2 * offset * std::pow(2, -23) : 0;
    const Tensor x = random.tensor({2, 4, 16, 16}, offset - 1, offset + 1);
    const Expected expected = reference_of(x, 2, ones({4}), zeros({4}), x);
    const auto y = group_norm(x, 2, {}, {}, kEps).output.to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], expected.y[i], 4e-6 + rounding) << offset;
  }
}

TEST(GroupNormTest, SumsOfLargeGroupsAreExactToTheLastPlaces) {
  if (default_device().is_cuda()) GTEST_SKIP() << "GPUs may be simulated";
  const Tensor x = full({2, 1, 1 << 21}, 0.1f), grad = full(x.shape(), 0.1f);
  const auto [y, mean, rstd] = group_norm(x, 1, {}, {}, kEps);
  EXPECT_EQ(mean.to_vector<float>(), (std::vector<float>{0.1f, 0.1f}));
  const auto gradients = group_norm_backward(grad, x, {}, mean, rstd);
  expect_close(gradients.bias, {(1 << 22) * double{0.1f}});
}

TEST(GroupNormTest, TakesNoExamplesAndNoPositions) {
  for (const Shape& shape : {Shape{0, 4, 3}, Shape{2, 4, 0}}) {
    const auto [y, mean, rstd] = group_norm(zeros(shape), 2, {}, {}, kEps);
    EXPECT_EQ(y.shape(), shape);
    const auto gradients = group_norm_backward(zeros(shape), zeros(shape), {}, mean, rstd);
    EXPECT_EQ(gradients.input.shape(), shape);
    expect_close(gradients.weight, {0, 0, 0, 0});
  }
}

TEST(GroupNormTest, ThrowsForBadShapes) {
  const Tensor x = zeros({2, 6, 3});
  expect_throws<ShapeError>([&] { group_norm(zeros({4}), 2, {}, {}, kEps); },
                            "group_norm: x must be (B, C, ...); got shape (4,)");
  for (const std::int64_t groups : {-1, 0, 4, 7})
    expect_throws<ShapeError>(
        [&] { group_norm(x, groups, {}, {}, kEps); },
        concat("the number of groups must divide the channels; got ", groups, " and x (2, 6, 3)"));
  expect_throws<ShapeError>(
      [&] { group_norm(x, 2, zeros({3}), {}, kEps); },
      "group_norm: weight must have one value per channel; got (3,) for x (2, 6, 3)");
  expect_throws<DTypeError>(
      [&] {
        group_norm(zeros({2, 2}, {.dtype = DType::int32}), 1, {}, {}, 0);
      },
      "group_norm: needs a floating dtype; got int32");
}

}  // namespace
}  // namespace ringrad::kernels
