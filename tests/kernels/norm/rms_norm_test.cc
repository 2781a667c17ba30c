#include <cmath>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/norm/row_norm.h"
#include "ringrad/tests/kernels/team.h"
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
  std::vector<double> y, rstd, grad_x, grad_weight;
};

Expected reference_of(const Tensor& x, const Tensor& weight, const Tensor& grad) {
  const auto xs = x.to_vector<double>(), gs = grad.to_vector<double>();
  const auto scale = weight.to_vector<double>();
  const std::size_t C = scale.size();
  Expected expected;
  expected.grad_weight.resize(C);
  for (std::size_t row = 0; row < xs.size(); row += C) {
    double squares = 0, products = 0;
    for (std::size_t c = 0; c < C; ++c) squares += xs[row + c] * xs[row + c];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(C) + kEps);
    for (std::size_t c = 0; c < C; ++c) {
      const double xhat = xs[row + c] * rstd;
      expected.y.push_back(xhat * scale[c]);
      expected.grad_weight[c] += gs[row + c] * xhat;
      products += gs[row + c] * scale[c] * xhat / static_cast<double>(C);
    }
    for (std::size_t c = 0; c < C; ++c)
      expected.grad_x.push_back(rstd * (gs[row + c] * scale[c] - xs[row + c] * rstd * products));
    expected.rstd.push_back(rstd);
  }
  return expected;
}

TEST(RMSNormTest, IsTheDefinitionWithItsGradient) {
  // On a GPU also: rows of a warp, and of blocks that keep them in registers and that do not.
  const Shape shapes[] = {{8}, {3, 5}, {2, 3, 33}, {300, 70}, {3, 1000}, {2, 4111}, {2, 20000}};
  std::uint64_t seed = 1;
  for (const Shape& shape : shapes)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(concat(shape, " ", dtype, " ", threads, " threads"));
        const Team team(threads);
        Random random(seed++);
        const Tensor x = random.strided(random.tensor(shape, dtype));
        const Tensor grad = random.strided(random.tensor(shape, dtype));
        const Tensor weight = random.tensor({shape.back()}, dtype);
        const Expected expected = reference_of(x, weight, grad);
        const auto [y, mean, rstd] = rms_norm(x, weight, kEps);
        expect_close(y, expected.y, 128);
        expect_close(rstd, expected.rstd, 128);
        const auto gradients = rms_norm_backward(grad, x, weight, rstd);
        expect_close(gradients.input, expected.grad_x, 256);
        expect_close(gradients.weight, expected.grad_weight, 2048);
      }
}

TEST(RMSNormTest, ZerosStayZerosAndTheirGradientIsFinite) {
  const Tensor x = zeros({2, 16}), grad = ones({2, 16});
  const auto [y, mean, rstd] = rms_norm(x, {}, kEps);
  expect_close(y, zeros({2, 16}));
  expect_close(rms_norm_backward(grad, x, {}, rstd).input, full({2, 16}, 1 / std::sqrt(kEps)));
}

TEST(RMSNormTest, WithoutWeightTheRootMeanSquareIsOne) {
  Random random(1);
  const Tensor x = random.tensor({4, 64}), grad = random.tensor({4, 64});
  const auto bare = rms_norm(x, {}, 0), weighed = rms_norm(x, ones({64}), 0);
  const auto values = bare.output.to_vector<double>();
  for (std::size_t row = 0; row < 4; ++row) {
    double squares = 0;
    for (std::size_t c = 0; c < 64; ++c) squares += std::pow(values[row * 64 + c], 2);
    EXPECT_NEAR(squares, 64, 1e-4);
  }
  expect_close(bare.output, weighed.output);
  expect_close(rms_norm_backward(grad, x, {}, bare.rstd).input,
               rms_norm_backward(grad, x, ones({64}), bare.rstd).input);
}

TEST(RMSNormTest, TakesParametersOfOtherDtypesAndRowsThatBeginAnywhere) {
  Random random(2);
  const Tensor half = random.tensor({3, 67}, DType::bfloat16),
               weight = random.tensor({67}, DType::bfloat16);
  expect_same_bits(rms_norm(half, cast(weight, DType::float32), kEps).output,
                   rms_norm(half, weight, kEps).output);
  const Tensor memory = random.tensor({3 * 70 + 1}), vector = random.tensor({71});
  const Tensor x = view::as_strided(memory, {3, 70}, {70, 1}, 1);
  const Tensor unaligned = view::as_strided(vector, {70}, {1}, 1);
  const auto [y, mean, rstd] = rms_norm(x, unaligned, kEps);
  expect_same_bits(y, rms_norm(clone(x), clone(unaligned), kEps).output);
  expect_same_bits(rms_norm_backward(x, x, unaligned, rstd).input,
                   rms_norm_backward(clone(x), clone(x), clone(unaligned), rstd).input);
}

TEST(RMSNormTest, TakesNoRows) {
  const auto result = rms_norm(zeros({0, 4}), {}, kEps);
  EXPECT_EQ(result.output.shape(), (Shape{0, 4}));
  expect_close(rms_norm_backward(zeros({0, 4}), zeros({0, 4}), {}, result.rstd).weight,
               {0, 0, 0, 0});
}

TEST(RMSNormTest, ThrowsForBadShapes) {
  const Tensor x = zeros({2, 3});
  expect_throws<ShapeError>([&] { rms_norm(zeros({}), {}, kEps); },
                            "rms_norm: x must have at least one axis; got shape ()");
  expect_throws<ShapeError>(
      [&] { rms_norm(x, zeros({2}), kEps); },
      "rms_norm: weight must have the extent of the last axis; got (2,) for x (2, 3)");
  expect_throws<ShapeError>(
      [&] {
        rms_norm_backward(zeros({3, 2}), x, {}, zeros({2}));
      },
      "the gradient must have the shape of x (2, 3); got (3, 2)");
  expect_throws<ShapeError>([&] { rms_norm_backward(x, x, {}, zeros({3})); },
                            "rstd must have one value per row (2,); got (3,)");
  expect_throws<DTypeError>([&] { rms_norm(zeros({2}, {.dtype = DType::bool_}), {}, kEps); },
                            "rms_norm: needs a floating dtype; got bool");
}

}  // namespace
}  // namespace ringrad::kernels
