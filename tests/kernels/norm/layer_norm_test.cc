#include <algorithm>
#include <cmath>

#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/norm/row_norm.h"
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

struct Expected {
  std::vector<double> y, mean, rstd, grad_x, grad_weight, grad_bias;
};

Expected reference_of(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& grad) {
  const auto xs = x.to_vector<double>(), gs = grad.to_vector<double>();
  const auto scale = weight.to_vector<double>(), offset = bias.to_vector<double>();
  const std::size_t C = scale.size();
  Expected expected;
  expected.grad_weight.resize(C);
  expected.grad_bias.resize(C);
  for (std::size_t row = 0; row < xs.size(); row += C) {
    const auto normalized = reference::normalize({&xs[row], &xs[row] + C}, kEps);
    std::vector<double> g;
    for (std::size_t c = 0; c < C; ++c) {
      expected.y.push_back(normalized.xhat[c] * scale[c] + offset[c]);
      expected.grad_weight[c] += gs[row + c] * normalized.xhat[c];
      expected.grad_bias[c] += gs[row + c];
      g.push_back(gs[row + c] * scale[c]);
    }
    const auto grad_x = reference::normalize_backward(normalized, g);
    expected.grad_x.insert(expected.grad_x.end(), grad_x.begin(), grad_x.end());
    expected.mean.push_back(normalized.mean);
    expected.rstd.push_back(normalized.rstd);
  }
  return expected;
}

TEST(LayerNormTest, IsTheDefinitionWithItsGradient) {
  // On a GPU also: rows of a warp, and of blocks that keep them in registers and that do not.
  const Shape shapes[] = {{8},       {3, 5},    {2, 3, 33}, {300, 70}, {2, 1, 4, 128},
                          {20, 255}, {3, 1000}, {2, 2050},  {2, 4096}, {2, 4111}};
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        const Team team(threads);
        Random random(seed++);
        const Shape vector{shape.back()};
        const Tensor x = random.strided(random.tensor(shape, dtype));
        const Tensor grad = random.strided(random.tensor(shape, dtype));
        const Tensor weight = random.tensor(vector, dtype), bias = random.tensor(vector, dtype);
        const Expected expected = reference_of(x, weight, bias, grad);
        const auto [y, mean, rstd] = layer_norm(x, weight, bias, kEps);
        expect_close(y, expected.y, 128);
        expect_close(mean, expected.mean, 128);
        expect_close(rstd, expected.rstd, 128);
        const auto gradients = layer_norm_backward(grad, x, weight, mean, rstd);
        expect_close(gradients.input, expected.grad_x, 256);
        expect_close(gradients.weight, expected.grad_weight, 2048);
        expect_close(gradients.bias, expected.grad_bias, 2048);
      }
}

TEST(LayerNormTest, EqualValuesGiveZeros) {
  for (const std::int64_t C : {48, 1000, 4111}) {
    const auto result = layer_norm(full({2, C}, 10000.1f), {}, {}, kEps);
    for (const double value : result.output.to_vector<double>()) EXPECT_LT(std::abs(value), 1e-4);
  }
}

// Normal rows of deviation 0.1. The number beside each offset is the largest error of PyTorch 2.15
// on the CPU over 64 rows of 768.
TEST(LayerNormTest, ALargeOffsetCostsNoMoreThanInPyTorch) {
  struct Case {
    double offset, error_of_pytorch;
  };
  Random random(7);
  for (const auto& [offset, error_of_pytorch] :
       {Case{1e2, 1.3e-4}, Case{1e3, 9.4e-4}, Case{1e4, 9e-3}, Case{1e5, 1.3e-1}})
    for (const Shape& shape : {Shape{64, 768}, Shape{300, 20}, Shape{2, 4111}}) {
      Generator generator(3);
      const Tensor noise = randn(shape, {}, generator);
      const Tensor x = empty(shape);
      copy_(x, noise);
      kernels::unary(ops::RightScalar<ops::Mul>(0.1), x, x);
      kernels::unary(ops::RightScalar<ops::Add>(offset), x, x);
      const Tensor zero = zeros({shape[1]}), one = ones({shape[1]});
      const Expected expected = reference_of(x, one, zero, x);
      const auto y = layer_norm(x, one, zero, kEps).output.to_vector<double>();
      double error = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        error = std::max(error, std::abs(y[i] - expected.y[i]));
      EXPECT_LE(error, 2e-6) << "offset " << offset << ", shape " << shape;
      EXPECT_LE(error, error_of_pytorch);
    }
}

TEST(LayerNormTest, WithoutWeightAndBiasRowsAreStandardised) {
  Random random(1);
  const Tensor x = random.tensor({4, 64}), ones_vector = ones({64}), zeros_vector = zeros({64});
  const auto bare = layer_norm(x, {}, {}, kEps);
  const auto full = layer_norm(x, ones_vector, zeros_vector, kEps);
  expect_close(bare.output, full.output);
  const Tensor grad = random.tensor({4, 64});
  expect_close(layer_norm_backward(grad, x, {}, bare.mean, bare.rstd).input,
               layer_norm_backward(grad, x, ones_vector, full.mean, full.rstd).input);
}

TEST(LayerNormTest, TakesParametersOfOtherDtypes) {
  for (const std::int64_t C : {64, 67, 4500}) {
    Random random(2);
    const Shape shape{3, C};
    const Tensor x = random.tensor(shape, DType::bfloat16),
                 grad = random.tensor(shape, DType::bfloat16);
    const Tensor weight = random.tensor({C}, DType::bfloat16),
                 bias = random.tensor({C}, DType::bfloat16);
    const auto same = layer_norm(x, weight, bias, kEps);
    const auto gradients = layer_norm_backward(grad, x, weight, same.mean, same.rstd);
    for (const DType dtype : kFloats) {
      if (dtype == DType::float16) continue;  // cannot hold every bfloat16
      const Tensor wide = cast(weight, dtype);
      expect_same_bits(layer_norm(x, wide, cast(bias, dtype), kEps).output, same.output);
      expect_same_bits(layer_norm_backward(grad, x, wide, same.mean, same.rstd).input,
                       gradients.input);
    }
  }
}

TEST(LayerNormTest, TakesRowsThatBeginAnywhere) {
  Random random(3);
  const Tensor memory = random.tensor({3 * 70 + 1}), vector = random.tensor({71});
  const Tensor x = view::as_strided(memory, {3, 70}, {70, 1}, 1);
  const Tensor weight = view::as_strided(vector, {70}, {1}, 1);
  const auto [y, mean, rstd] = layer_norm(x, weight, weight, kEps);
  expect_same_bits(y, layer_norm(clone(x), clone(weight), clone(weight), kEps).output);
  expect_same_bits(layer_norm_backward(x, x, weight, mean, rstd).input,
                   layer_norm_backward(clone(x), clone(x), clone(weight), mean, rstd).input);
}

TEST(LayerNormTest, TakesNoRows) {
  const auto result = layer_norm(zeros({0, 4}), {}, {}, kEps);
  EXPECT_EQ(result.output.shape(), (Shape{0, 4}));
  const auto gradients =
      layer_norm_backward(zeros({0, 4}), zeros({0, 4}), {}, result.mean, result.rstd);
  expect_close(gradients.weight, {0, 0, 0, 0});
}

TEST(LayerNormTest, ThrowsForBadShapes) {
  const Tensor x = zeros({2, 3});
  expect_throws<ShapeError>([&] { layer_norm(zeros({}), {}, {}, kEps); },
                            "layer_norm: x must have at least one axis; got shape ()");
  expect_throws<ShapeError>(
      [&] { layer_norm(x, zeros({2}), {}, kEps); },
      "layer_norm: weight must have the extent of the last axis; got (2,) for x (2, 3)");
  expect_throws<ShapeError>(
      [&] {
        layer_norm_backward(zeros({3, 2}), x, {}, zeros({2}), zeros({2}));
      },
      "layer_norm_backward: the gradient must have the shape of x (2, 3); got (3, 2)");
  expect_throws<ShapeError>([&] { layer_norm_backward(x, x, {}, zeros({3}), zeros({2})); },
                            "mean and rstd must have one value per row (2,); got (3,) and (2,)");
  expect_throws<DTypeError>([&] { layer_norm(zeros({2}, {.dtype = DType::bool_}), {}, {}, kEps); },
                            "layer_norm: needs a floating dtype; got bool");
}

}  // namespace
}  // namespace ringrad::kernels
