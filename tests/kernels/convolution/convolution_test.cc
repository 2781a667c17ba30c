#include "ringrad/kernels/convolution/convolution.h"

#include <cmath>

#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/convolution.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

struct Case {
  std::int64_t B, C, H, W, K, R, S;
  Conv2dOptions options = {};
};

// Cases for every path: Winograd, oneDNN, direct loops, and a GPU's tiles and slices; first layers,
// 1x1, strided, dilated, grouped, depthwise, unequal axes, inputs that leave a remainder.
const Case kCases[] = {
    {2, 1, 9, 8, 6, 3, 3, {.padding = {1, 1}}},
    {2, 3, 7, 7, 16, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {1, 4, 5, 6, 8, 1, 1, {}},
    {2, 8, 9, 7, 4, 1, 1, {.stride = {2, 2}}},
    {2, 16, 7, 9, 32, 3, 3, {.padding = {1, 1}}},
    {1, 32, 8, 8, 16, 3, 3, {}},
    {2, 16, 6, 6, 16, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {1, 6, 10, 11, 4, 3, 2, {.stride = {2, 1}, .padding = {2, 0}, .dilation = {2, 3}, .groups = 2}},
    {2, 8, 6, 6, 8, 3, 3, {.padding = {1, 1}, .groups = 8}},
    {1, 2, 5, 5, 3, 5, 5, {.padding = {4, 4}}},
    {1, 2, 8, 8, 3, 2, 2, {.stride = {3, 3}}},
    {1, 10, 8, 9, 70, 3, 3, {.padding = {1, 1}}},
    {2,
     24,
     9,
     10,
     40,
     3,
     2,
     {.stride = {2, 1}, .padding = {2, 0}, .dilation = {1, 2}, .groups = 2}},
    {3, 32, 9, 9, 32, 3, 3, {.stride = {1, 2}, .padding = {1, 1}, .groups = 2}},
    {2, 8, 20, 20, 8, 3, 3, {.padding = {1, 1}, .groups = 8}},
    {1, 4, 15, 14, 8, 3, 3, {.stride = {2, 2}, .groups = 4}},
};

// Winograd's errors scale with a whole tile, even where one of its outputs happens to be near zero:
// 1.9e-6 of the root mean square (winograd.h), which is 1.3 * sqrt(terms) for these inputs. Four
// times the slack of direct summation is about ten standard deviations of that.
double slack(const Case& c) {
  const bool winograd = c.R == 3 && c.S == 3 && c.C % 16 == 0 && c.K % 16 == 0 &&
                        c.options.stride == std::array<std::int64_t, 2>{1, 1};
  return (winograd ? 256 : 64) * std::sqrt(static_cast<double>(c.C * c.R * c.S));
}

reference::Convolution reference_of(const Case& c) {
  const Conv2dOptions& o = c.options;
  return {.B = c.B,
          .C = c.C,
          .H = c.H,
          .W = c.W,
          .K = c.K,
          .R = c.R,
          .S = c.S,
          .stride_h = o.stride[0],
          .stride_w = o.stride[1],
          .padding_h = o.padding[0],
          .padding_w = o.padding[1],
          .dilation_h = o.dilation[0],
          .dilation_w = o.dilation[1],
          .groups = o.groups};
}

Tensor random_input(Random& random, const Case& c, DType dtype) {
  return random.tensor({c.B, c.C, c.H, c.W}, dtype);
}
Tensor random_weight(Random& random, const Case& c, DType dtype) {
  return random.tensor({c.K, c.C / c.options.groups, c.R, c.S}, dtype);
}
Tensor random_gradient(Random& random, const Case& c, DType dtype) {
  const auto reference = reference_of(c);
  return random.tensor({c.B, c.K, reference.P(), reference.Q()}, dtype);
}

// body(case, dtype, random) for each case, dtype and team.
template <class Body>
void for_each_case(Body body) {
  for (const Case& c : kCases)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        if (threads > 1 && default_device().is_cuda()) continue;
        const Team team(threads);
        Random random(static_cast<std::uint64_t>(c.C * 100 + c.K));
        body(c, dtype, random);
      }
}

TEST(ConvolutionTest, IsTheDefinition) {
  for_each_case([](const Case& c, DType dtype, Random& random) {
    const Tensor x = random_input(random, c, dtype), weight = random_weight(random, c, dtype);
    const Tensor bias = random.tensor({c.K}, dtype);
    const auto reference = reference_of(c);
    expect_close(conv2d(x, weight, bias, c.options),
                 reference.forward(x.to_vector<double>(), weight.to_vector<double>(),
                                   bias.to_vector<double>()),
                 slack(c));
    expect_close(conv2d(random.strided(x), random.strided(weight), {}, c.options),
                 reference.forward(x.to_vector<double>(), weight.to_vector<double>(), {}),
                 slack(c));
  });
}

TEST(ConvolutionTest, InputGradientIsItsAdjoint) {
  for_each_case([](const Case& c, DType dtype, Random& random) {
    const Tensor grad = random_gradient(random, c, dtype);
    const Tensor weight = random_weight(random, c, dtype);
    const auto expected =
        reference_of(c).backward_input(grad.to_vector<double>(), weight.to_vector<double>());
    const Shape input_shape{c.B, c.C, c.H, c.W};
    const double tolerance = slack(c) * std::sqrt(static_cast<double>(c.K));
    expect_close(conv2d_backward_input(grad, weight, input_shape, c.options), expected, tolerance);
    expect_close(
        conv2d_backward_input(random.strided(grad), random.strided(weight), input_shape, c.options),
        expected, tolerance);
  });
}

TEST(ConvolutionTest, WeightAndBiasGradientsAreTheirAdjoints) {
  for_each_case([](const Case& c, DType dtype, Random& random) {
    const Tensor grad = random_gradient(random, c, dtype), x = random_input(random, c, dtype);
    const auto reference = reference_of(c);
    const auto expected =
        reference.backward_weight(grad.to_vector<double>(), x.to_vector<double>());
    const Shape weight_shape{c.K, c.C / c.options.groups, c.R, c.S};
    const double tolerance =
        slack(c) * std::sqrt(static_cast<double>(reference.P() * reference.Q()));
    const auto both = conv2d_backward_weight(grad, x, weight_shape, true, c.options);
    expect_close(both.weight, expected, tolerance);
    expect_close(both.bias, reference.backward_bias(grad.to_vector<double>()), tolerance);
    const auto one = conv2d_backward_weight(random.strided(grad), random.strided(x), weight_shape,
                                            false, c.options);
    expect_close(one.weight, expected, tolerance);
    EXPECT_FALSE(one.bias.defined());
  });
}

// Enough pixels for a GPU's largest tiles.
TEST(ConvolutionTest, IsTheDefinitionForManyPixels) {
  const Case c{2, 12, 66, 66, 12, 1, 1, {}};
  Random random(2);
  const Tensor x = random_input(random, c, DType::float32);
  const Tensor weight = random_weight(random, c, DType::float32);
  const Tensor grad = random_gradient(random, c, DType::float32);
  const auto reference = reference_of(c);
  expect_close(conv2d(x, weight, {}),
               reference.forward(x.to_vector<double>(), weight.to_vector<double>(), {}), slack(c));
  expect_close(conv2d_backward_input(grad, weight, x.shape()),
               reference.backward_input(grad.to_vector<double>(), weight.to_vector<double>()),
               slack(c) * std::sqrt(12.0));
  expect_close(conv2d_backward_weight(grad, x, weight.shape(), false).weight,
               reference.backward_weight(grad.to_vector<double>(), x.to_vector<double>()),
               slack(c) * 66);
}

TEST(ConvolutionTest, ReturnsChannelsLastMemory) {
  Random random(1);
  const Tensor x = random.tensor({2, 4, 5, 6}), weight = random.tensor({8, 4, 3, 3});
  const Tensor y = conv2d(x, weight, {});
  EXPECT_TRUE(y.is_channels_last());
  EXPECT_TRUE(conv2d_backward_input(y, weight, x.shape()).is_channels_last());
  EXPECT_TRUE(conv2d_backward_weight(y, x, weight.shape(), false).weight.is_contiguous());
}

TEST(ConvolutionTest, OfNothingIsTheBias) {
  const Tensor weight = zeros({2, 0, 3, 3}), bias = tensor({1., 2.});
  expect_close(conv2d(zeros({1, 0, 3, 4}), weight, bias), {1, 1, 2, 2});
  EXPECT_EQ(conv2d(zeros({0, 3, 5, 5}), zeros({4, 3, 3, 3}), {}).shape(), (Shape{0, 4, 3, 3}));
  const auto gradients =
      conv2d_backward_weight(zeros({0, 4, 3, 3}), zeros({0, 3, 5, 5}), {4, 3, 3, 3}, true);
  expect_close(gradients.bias, {0, 0, 0, 0});
  expect_close(gradients.weight, zeros({4, 3, 3, 3}));
}

TEST(ConvolutionTest, ThrowsWhenShapesDoNotFit) {
  const Tensor x = zeros({1, 3, 8, 8}), weight = zeros({4, 3, 3, 3});
  expect_throws<ShapeError>(
      [&] {
        conv2d(zeros({3, 8, 8}), weight, {});
      },
      "conv2d: input must be (B, C, H, W)");
  expect_throws<ShapeError>(
      [&] {
        conv2d(x, zeros({4, 2, 3, 3}), {});
      },
      "got input (1, 3, 8, 8), weight (4, 2, 3, 3) and groups 1");
  expect_throws<ShapeError>([&] { conv2d(x, weight, {}, {.groups = 2}); }, "and groups 2");
  expect_throws<ShapeError>(
      [&] {
        conv2d(x, zeros({4, 3, 9, 3}), {});
      },
      "got an extent of 8 for a filter spanning 9");
  expect_throws<ShapeError>(
      [&] {
        conv2d(x, zeros({4, 3, 0, 3}), {});
      },
      "the filter must have taps");
  expect_throws<ShapeError>([&] { conv2d(x, weight, zeros({3})); },
                            "conv2d: bias must have shape (4,); got (3,)");
  expect_throws<ShapeError>(
      [&] {
        conv2d_backward_input(zeros({1, 4, 8, 8}), weight, x.shape());
      },
      "conv2d_backward_input: the gradient must have the output's shape (1, 4, 6, 6)");
  expect_throws<ShapeError>(
      [&] {
        conv2d_backward_weight(zeros({1, 4, 8, 8}), x, weight.shape(), true);
      },
      "conv2d_backward_weight: the gradient must have the output's shape (1, 4, 6, 6)");
}

TEST(ConvolutionTest, ThrowsForOptionsOutOfRange) {
  const Tensor x = zeros({1, 3, 8, 8}), weight = zeros({4, 3, 3, 3});
  const Conv2dOptions bad[] = {{.stride = {0, 1}},
                               {.padding = {0, -1}},
                               {.dilation = {0, 1}},
                               {.groups = 0},
                               {.padding = {std::int64_t{1} << 62, 0}}};
  for (const Conv2dOptions& options : bad)
    expect_throws<ValueError>([&] { conv2d(x, weight, {}, options); }, "conv2d: ");
}

TEST(ConvolutionTest, ThrowsWhenDtypesOrDevicesDisagree) {
  const Tensor x = zeros({1, 3, 8, 8});
  expect_throws<DTypeError>(
      [&] {
        conv2d(x, zeros({4, 3, 3, 3}, {.dtype = DType::float64}), {});
      },
      "conv2d: dtypes must be equal; got float32 and float64");
  expect_throws<DeviceError>(
      [&] {
        conv2d(x, zeros({4, 3, 3, 3}, {.device = "cpu:1"}), {});
      },
      "conv2d: tensors must be on one device");
}

}  // namespace
}  // namespace ringrad::kernels
