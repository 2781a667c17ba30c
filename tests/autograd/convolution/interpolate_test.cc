#include "ringrad/autograd/convolution/interpolate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

struct Case {
  Shape x;
  InterpolateOptions options;
};

constexpr auto kBilinear = Interpolation::bilinear;

const Case kCases[] = {
    {{2, 3, 4, 5}, {.size = {8, 10}}},
    {{1, 2, 4, 5}, {.size = {3, 7}}},
    {{1, 2, 5, 4}, {.scale = {1.7, 0.6}}},
    {{2, 3, 4, 5}, {.size = {8, 10}, .mode = kBilinear}},
    {{1, 2, 5, 4}, {.size = {3, 9}, .mode = kBilinear}},
    {{1, 2, 5, 4}, {.scale = {2.3, 0.5}, .mode = kBilinear}},
    {{1, 2, 3, 4}, {.size = {7, 2}, .mode = kBilinear, .align_corners = true}},
    {{1, 2, 3, 1}, {.size = {1, 3}, .mode = kBilinear, .align_corners = true}},
};

// The definition for one axis: how much input i adds to output o.
double weight(const InterpolateOptions& options, unsigned axis, double inputs, double outputs,
              double o, double i) {
  const double scale = options.scale[axis] > 0 ? options.scale[axis] : outputs / inputs;
  if (options.mode == Interpolation::nearest)
    return i == std::min(inputs - 1, std::floor(o / scale + 1e-9)) ? 1 : 0;
  double source = std::max(0., (o + 0.5) / scale - 0.5);
  if (options.align_corners) source = outputs > 1 ? o * (inputs - 1) / (outputs - 1) : 0;
  return std::max(0., 1 - std::abs(std::min(source, inputs - 1) - i));
}

std::vector<double> expected(const Tensor& x, const Tensor& y, const InterpolateOptions& options) {
  const auto values = x.to_vector<double>();
  const std::int64_t H = x.shape()[2], W = x.shape()[3], P = y.shape()[2], Q = y.shape()[3];
  std::vector<double> result;
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  for (std::int64_t image = 0; image < x.shape()[0] * x.shape()[1]; ++image)
    for (std::int64_t p = 0; p < P; ++p)
      for (std::int64_t q = 0; q < Q; ++q) {
        double total = 0;
        for (std::int64_t h = 0; h < H; ++h)
          for (std::int64_t w = 0; w < W; ++w)
            total += weight(options, 0, real(H), real(P), real(p), real(h)) *
                     weight(options, 1, real(W), real(Q), real(q), real(w)) *
                     values[static_cast<std::size_t>((image * H + h) * W + w)];
        result.push_back(total);
      }
  return result;
}

TEST(InterpolateTest, AgreesWithTheDefinitionInEveryLayoutAndDType) {
  Random random(1);
  for (const Case& row : kCases)
    for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
      SCOPED_TRACE(concat(row.x, ' ', dtype));
      const Tensor x = random.tensor(row.x, dtype);
      const Tensor y = interpolate(x, row.options);
      EXPECT_EQ(y.dtype(), dtype);
      expect_close(y, expected(x, y, row.options), 32);
      expect_close(interpolate(random.strided(x), row.options), y, 32);
      const Tensor last = interpolate(to_layout(x, Layout::channels_last), row.options);
      EXPECT_TRUE(last.is_channels_last());
      expect_close(last, y, 32);
    }
}

// As torch.nn.functional.interpolate gives them.
TEST(InterpolateTest, KnownValues) {
  const Tensor x = tensor({{{{1., 2.}, {3., 4.}}}});
  expect_close(interpolate(x, {.scale = {1, 2}}), {1, 1, 2, 2, 3, 3, 4, 4});
  expect_close(interpolate(x, {.size = {1, 4}, .mode = kBilinear}), {2, 2.25, 2.75, 3});
  expect_close(interpolate(x, {.size = {2, 3}, .mode = kBilinear, .align_corners = true}),
               {1, 1.5, 2, 3, 3.5, 4});
}

TEST(InterpolateTest, GradientsAgreeWithDifferences) {
  Random random(2);
  for (const Case& row : kCases)
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      SCOPED_TRACE(concat(row.x));
      const Tensor x = to_layout(random.tensor(row.x, DType::float64), layout).set_requires_grad();
      const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
        return interpolate(in[0], row.options);
      };
      EXPECT_EQ(gradient_check(f, {x}), "");
      const DifferentiableFunction curved = [&](const std::vector<Tensor>& in) {
        return interpolate(square(in[0]), row.options);
      };
      EXPECT_EQ(gradient_gradient_check(curved, {x}), "");
    }
}

// <resample(x), y> = <x, adjoint(y)>, where every scale has another range of outputs per input.
TEST(InterpolateTest, TheGradientOfTheSumSharesEveryOutput) {
  for (const Interpolation mode : {Interpolation::nearest, kBilinear})
    for (const std::int64_t inputs : {1, 2, 3, 7, 30})
      for (const std::int64_t outputs : {1, 2, 5, 6, 31, 59, 60}) {
        SCOPED_TRACE(concat(inputs, " to ", outputs));
        const Tensor x = ones({1, 1, 1, inputs}).set_requires_grad();
        sum(interpolate(x, {.size = {1, outputs}, .mode = mode})).backward();
        expect_close(sum(x.grad()), {static_cast<double>(outputs)}, 64);
        const Tensor first = slice(x.grad(), 3, 0, (inputs + 1) / 2);
        const Tensor last = slice(x.grad(), 3, inputs / 2, inputs);
        if (mode == kBilinear) expect_close(sum(first), sum(last), 64);
      }
}

TEST(InterpolateTest, TheGradientOfAPixelSumsAnyNumberOfOutputs) {
  if (default_device().is_cuda()) GTEST_SKIP() << "GPUs may be simulated";
  for (const std::array<std::int64_t, 2> size :
       {std::array<std::int64_t, 2>{1 << 20, 1}, {1, 1 << 20}}) {
    const Tensor x = ones({1, 1, 1, 1}).set_requires_grad();
    interpolate(x, {.size = size}).backward(full({1, 1, size[0], size[1]}, 0.1f));
    expect_close(x.grad(), {(1 << 20) * double{0.1f}});
  }
}

TEST(InterpolateTest, EmptyBatchesPass) {
  const Tensor x = empty({0, 2, 3, 3}).set_requires_grad();
  const Tensor y = interpolate(x, {.size = {4, 5}});
  EXPECT_EQ(y.shape(), (Shape{0, 2, 4, 5}));
  sum(y).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(InterpolateTest, Throws) {
  const Tensor x = ones({1, 1, 2, 2}), none;
  expect_throws<ShapeError>(
      [&] {
        interpolate(ones({2, 2}), {.size = {1, 1}});
      },
      "interpolate: x must be (B, C, H, W); got shape (2, 2)");
  expect_throws<ValueError>([&] { interpolate(x, {}); },
                            "either size or scale must be positive, for each axis; got size 0");
  expect_throws<ValueError>(
      [&] {
        interpolate(x, {.size = {1, 1}, .scale = {1, 1}});
      },
      "either size or scale");
  expect_throws<ValueError>(
      [&] {
        interpolate(x, {.size = {1, 1}, .align_corners = true});
      },
      "align_corners must be of bilinear mode");
  expect_throws<ShapeError>([&] { interpolate(x, {.scale = {0.1, 1}}); }, "must have pixels");
  expect_throws<ShapeError>(
      [&] {
        interpolate(x, {.size = {std::int64_t{1} << 31, 1}});
      },
      "fewer than 2^31");
  expect_throws<DTypeError>(
      [&] {
        interpolate(reshape(arange(4), {1, 1, 2, 2}), {.size = {1, 1}});
      },
      "interpolate: needs a floating dtype");
  expect_throws<ValueError>([&] { interpolate(none, {.size = {1, 1}}); }, "must be defined");
}

}  // namespace
}  // namespace ringrad
