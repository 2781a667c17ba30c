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

const Conv2dOptions kPlain;
constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

struct Case {
  Case(std::int64_t B, std::int64_t C, std::int64_t H, std::int64_t W, std::int64_t K,
       std::int64_t R, std::int64_t S, const Conv2dOptions& options = {})
      : x{B, C, H, W}, weight{K, C / options.groups, R, S}, options(options) {}
  Case(const Shape& x, const Shape& weight, const Conv1dOptions& options)
      : x(x), weight(weight), options(options) {}
  Case(const Shape& x, const Shape& weight, const Conv3dOptions& options)
      : x(x), weight(weight), options(options) {}

  Shape x, weight;
  ConvolutionOptions options;
};

// Cases for every path: Winograd, oneDNN, direct loops, and a GPU's tiles and slices; first layers,
// 1x1, strided, dilated, grouped, depthwise, unequal axes, inputs that leave a remainder.
const Case kCases[] = {
    {2, 1, 9, 8, 6, 3, 3, {.padding = {1, 1}}},
    {2, 3, 7, 7, 16, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {1, 4, 5, 6, 8, 1, 1, {}},
    {2, 8, 9, 7, 4, 1, 1, {.stride = {2, 2}}},
    {2, 3, 9, 7, 4, 1, 1, {.stride = {1, 3}}},
    {2, 16, 7, 9, 32, 3, 3, {.padding = {1, 1}}},
    {1, 32, 8, 8, 16, 3, 3, {}},
    {2, 16, 6, 6, 16, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {1, 6, 10, 11, 4, 3, 2, {.stride = {2, 1}, .padding = {2, 0}, .dilation = {2, 3}, .groups = 2}},
    {2, 8, 6, 6, 8, 3, 3, {.padding = {1, 1}, .groups = 8}},
    {1, 2, 5, 5, 3, 5, 5, {.padding = {4, 4}}},
    {1, 2, 8, 8, 3, 2, 2, {.stride = {3, 3}}},
    {2, 16, 1, 2, 16, 1, 9, {.stride = {1, 2}, .padding = {0, 9}}},
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
    {9, 16, 7, 9, 16, 5, 5, {.padding = {2, 2}, .groups = 16}},
    {2, 32, 9, 8, 32, 2, 5, {.stride = {2, 1}, .dilation = {3, 1}, .groups = 32}},
    {1, 16, 9, 11, 16, 7, 7, {.stride = {2, 2}, .padding = {3, 1}, .groups = 16}},
    {{2, 6, 9}, {4, 3, 3}, Conv1dOptions{.stride = 2, .padding = 1, .dilation = 2, .groups = 2}},
    {{2, 3, 5, 4, 6}, {4, 3, 3, 3, 3}, Conv3dOptions{.padding = {1, 1, 1}}},
    {{1, 16, 4, 5, 5}, {16, 16, 1, 3, 3}, Conv3dOptions{.padding = {0, 1, 1}}},
    {{1, 12, 1, 6, 6}, {24, 12, 3, 3, 3}, Conv3dOptions{.padding = {1, 1, 1}}},
    {{1, 6, 7, 6, 5},
     {4, 3, 2, 3, 2},
     Conv3dOptions{.stride = {2, 1, 2}, .padding = {1, 2, 0}, .dilation = {3, 1, 2}, .groups = 2}},
    {{2, 6, 5, 6, 7}, {4, 3, 1, 1, 1}, Conv3dOptions{.stride = {2, 1, 3}, .groups = 2}},
    {{2, 8, 5, 6, 7}, {8, 1, 3, 2, 3}, Conv3dOptions{.stride = {1, 2, 1}, .groups = 8}},
    {{1, 24, 5, 6, 6}, {40, 12, 2, 3, 3}, Conv3dOptions{.stride = {2, 1, 1}, .groups = 2}},
};

// Winograd's errors scale with a whole tile, even where one of its outputs happens to be near zero:
// 1.9e-6 of the root mean square (winograd.h), which is 1.3 * sqrt(terms) for these inputs. Four
// times the slack of direct summation is about ten standard deviations of that.
double slack(const Case& c) {
  const bool winograd = c.weight.size() == 4 && c.weight[2] == 3 && c.weight[3] == 3 &&
                        c.x[1] % 16 == 0 && c.weight[0] % 16 == 0 &&
                        c.options.stride == std::array<std::int64_t, 3>{1, 1, 1};
  return (winograd ? 256 : 64) *
         std::sqrt(static_cast<double>(c.weight.numel() / c.weight[0] * c.options.groups));
}

// The extents of a shape's last axes, with 1 for those that it lacks: 0 is the depth.
std::int64_t extent(const Shape& shape, int axis) {
  const int absent = 5 - shape.size();
  return axis < absent ? 1 : shape[2 + axis - absent];
}

reference::Convolution reference_of(const Case& c) {
  const ConvolutionOptions& o = c.options;
  return {.B = c.x[0],
          .C = c.x[1],
          .H = extent(c.x, 1),
          .W = extent(c.x, 2),
          .K = c.weight[0],
          .R = extent(c.weight, 1),
          .S = extent(c.weight, 2),
          .stride_h = o.stride[1],
          .stride_w = o.stride[2],
          .padding_h = o.padding[1],
          .padding_w = o.padding[2],
          .dilation_h = o.dilation[1],
          .dilation_w = o.dilation[2],
          .groups = o.groups,
          .D = extent(c.x, 0),
          .U = extent(c.weight, 0),
          .stride_d = o.stride[0],
          .padding_d = o.padding[0],
          .dilation_d = o.dilation[0]};
}

Tensor random_input(Random& random, const Case& c, DType dtype) {
  return random.tensor(c.x, dtype);
}
Tensor random_weight(Random& random, const Case& c, DType dtype) {
  return random.tensor(c.weight, dtype);
}
Tensor random_gradient(Random& random, const Case& c, DType dtype) {
  const auto reference = reference_of(c);
  Shape shape{c.x[0], c.weight[0]};
  if (c.x.size() == 5) shape.push_back(reference.Z());
  if (c.x.size() >= 4) shape.push_back(reference.P());
  shape.push_back(reference.Q());
  return random.tensor(shape, dtype);
}

// body(case, dtype, random) for each case, dtype and team.
template <class Body>
void for_each_case(Body body) {
  for (const Case& c : kCases)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        if (threads > 1 && default_device().is_cuda()) continue;
        const Team team(threads);
        Random random(static_cast<std::uint64_t>(c.x[1] * 100 + c.weight[0]));
        body(c, dtype, random);
      }
}

TEST(ConvolutionTest, IsTheDefinition) {
  for_each_case([](const Case& c, DType dtype, Random& random) {
    const Tensor x = random_input(random, c, dtype), weight = random_weight(random, c, dtype);
    const Tensor bias = random.tensor({c.weight[0]}, dtype);
    const auto reference = reference_of(c);
    expect_close(convolution(x, weight, bias, c.options),
                 reference.forward(x.to_vector<double>(), weight.to_vector<double>(),
                                   bias.to_vector<double>()),
                 slack(c));
    expect_close(convolution(random.strided(x), random.strided(weight), {}, c.options),
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
    const double tolerance = slack(c) * std::sqrt(static_cast<double>(c.weight[0]));
    expect_close(convolution_backward_input(grad, weight, c.x, c.options), expected, tolerance);
    expect_close(
        convolution_backward_input(random.strided(grad), random.strided(weight), c.x, c.options),
        expected, tolerance);
  });
}

TEST(ConvolutionTest, WeightAndBiasGradientsAreTheirAdjoints) {
  for_each_case([](const Case& c, DType dtype, Random& random) {
    const Tensor grad = random_gradient(random, c, dtype), x = random_input(random, c, dtype);
    const auto reference = reference_of(c);
    const auto expected =
        reference.backward_weight(grad.to_vector<double>(), x.to_vector<double>());
    const double tolerance =
        slack(c) * std::sqrt(static_cast<double>(reference.Z() * reference.P() * reference.Q()));
    const auto both = convolution_backward_weight(grad, x, c.weight, true, c.options);
    expect_close(both.weight, expected, tolerance);
    expect_close(both.bias, reference.backward_bias(grad.to_vector<double>()), tolerance);
    const auto one = convolution_backward_weight(random.strided(grad), random.strided(x), c.weight,
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
  expect_close(convolution(x, weight, {}, c.options),
               reference.forward(x.to_vector<double>(), weight.to_vector<double>(), {}), slack(c));
  expect_close(convolution_backward_input(grad, weight, x.shape(), c.options),
               reference.backward_input(grad.to_vector<double>(), weight.to_vector<double>()),
               slack(c) * std::sqrt(12.0));
  expect_close(convolution_backward_weight(grad, x, weight.shape(), false, c.options).weight,
               reference.backward_weight(grad.to_vector<double>(), x.to_vector<double>()),
               slack(c) * 66);
}

TEST(ConvolutionTest, DepthwiseGradientsOfManyPixelsAreExactToTheLastPlaces) {
  if (default_device().is_cuda()) GTEST_SKIP() << "GPUs may be simulated";
  const Tensor x = ones({1, 16, 300, 300}), grad = full(x.shape(), 0.1f);
  const auto gradients = convolution_backward_weight(
      grad, x, {16, 1, 5, 5}, true, Conv2dOptions{.padding = {2, 2}, .groups = 16});
  const double sum = 90'000 * double{0.1f};
  expect_close(gradients.bias, std::vector<double>(16, sum));
  EXPECT_NEAR(gradients.weight.to_vector<double>()[12], sum, 1e-5 * sum);  // the middle tap
}

TEST(ConvolutionTest, BiasGradientsOfManyPixelsAreExactToTheLastPlaces) {
  if (default_device().is_cuda()) GTEST_SKIP() << "GPUs may be simulated";
  for (const std::int64_t side : {1, 3}) {  // oneDNN, and Winograd's transforms
    const Tensor x = ones({2, 16, 512, 512}), grad = full(x.shape(), 0.1f);
    const auto gradients = convolution_backward_weight(
        grad, x, {16, 16, side, side}, true, Conv2dOptions{.padding = {side / 2, side / 2}});
    expect_close(gradients.bias, std::vector<double>(16, 2 * 512 * 512 * double{0.1f}));
  }
}

TEST(ConvolutionTest, ReturnsChannelsLastMemory) {
  Random random(1);
  const Tensor x = random.tensor({2, 4, 5, 6}), weight = random.tensor({8, 4, 3, 3});
  const Tensor y = convolution(x, weight, {}, kPlain);
  EXPECT_TRUE(y.is_channels_last());
  EXPECT_TRUE(convolution_backward_input(y, weight, x.shape(), kPlain).is_channels_last());
  EXPECT_TRUE(
      convolution_backward_weight(y, x, weight.shape(), false, kPlain).weight.is_contiguous());

  const Tensor volume = random.tensor({2, 4, 3, 5, 6}), filter = random.tensor({8, 4, 2, 3, 3});
  const Tensor z = convolution(volume, filter, {}, Conv3dOptions{});
  EXPECT_EQ(z.shape(), (Shape{2, 8, 2, 3, 4}));
  EXPECT_EQ(z.strides(), (Strides{8 * 24, 1, 8 * 12, 8 * 4, 8}));
}

TEST(ConvolutionTest, OfNothingIsTheBias) {
  const Tensor weight = zeros({2, 0, 3, 3}), bias = tensor({1., 2.});
  expect_close(convolution(zeros({1, 0, 3, 4}), weight, bias, kPlain), {1, 1, 2, 2});
  EXPECT_EQ(convolution(zeros({0, 3, 5, 5}), zeros({4, 3, 3, 3}), {}, kPlain).shape(),
            (Shape{0, 4, 3, 3}));
  const auto gradients = convolution_backward_weight(zeros({0, 4, 3, 3}), zeros({0, 3, 5, 5}),
                                                     {4, 3, 3, 3}, true, kPlain);
  expect_close(gradients.bias, {0, 0, 0, 0});
  expect_close(gradients.weight, zeros({4, 3, 3, 3}));
  expect_close(convolution(zeros({1, 0, 2, 3, 3}), zeros({2, 0, 2, 3, 3}), bias, Conv3dOptions{}),
               {1, 2});
  EXPECT_EQ(convolution(zeros({0, 1, 2}), zeros({3, 1, 2}), {}, Conv1dOptions{}).shape(),
            (Shape{0, 3, 1}));
}

TEST(ConvolutionTest, ThrowsWhenShapesDoNotFit) {
  const Tensor x = zeros({1, 3, 8, 8}), weight = zeros({4, 3, 3, 3});
  expect_throws<ShapeError>(
      [&] {
        convolution(zeros({3, 8, 8}), weight, {}, kPlain);
      },
      "conv2d: input must be (B, C, H, W)");
  expect_throws<ShapeError>(
      [&] {
        convolution(x, zeros({4, 2, 3, 3}), {}, kPlain);
      },
      "got input (1, 3, 8, 8), weight (4, 2, 3, 3) and groups 1");
  expect_throws<ShapeError>([&] { convolution(x, weight, {}, Conv2dOptions{.groups = 2}); },
                            "and groups 2");
  expect_throws<ShapeError>(
      [&] {
        convolution(x, zeros({4, 3, 9, 3}), {}, kPlain);
      },
      "got an extent of 8 for a filter spanning 9");
  expect_throws<ShapeError>(
      [&] {
        convolution(x, zeros({4, 3, 0, 3}), {}, kPlain);
      },
      "the filter must have taps");
  expect_throws<ShapeError>([&] { convolution(x, weight, zeros({3}), kPlain); },
                            "conv2d: bias must have shape (4,); got (3,)");
  expect_throws<ShapeError>(
      [&] {
        convolution_backward_input(zeros({1, 4, 8, 8}), weight, x.shape(), kPlain);
      },
      "conv2d_backward_input: the gradient must have the output's shape (1, 4, 6, 6)");
  expect_throws<ShapeError>(
      [&] {
        convolution_backward_weight(zeros({1, 4, 8, 8}), x, weight.shape(), true, kPlain);
      },
      "conv2d_backward_weight: the gradient must have the output's shape (1, 4, 6, 6)");
  expect_throws<ShapeError>(
      [&] { convolution(x, weight, {}, Conv3dOptions{}); },
      "conv3d: input must be (B, C, D, H, W) and weight (K, C / groups, U, R, "
      "S); got (1, 3, 8, 8) and (4, 3, 3, 3)");
  expect_throws<ShapeError>([&] { convolution(x, weight, {}, Conv1dOptions{}); },
                            "conv1d: input must be (B, C, L) and weight (K, C / groups, S)");
  expect_throws<ShapeError>(
      [&] {
        convolution(zeros({1, 1, 2, 8, 8}), zeros({1, 1, 3, 3, 3}), {}, Conv3dOptions{});
      },
      "conv3d: the filter must fit into the padded input; got an extent of 2 for a filter "
      "spanning 3");
}

TEST(ConvolutionTest, ThrowsForOptionsOutOfRange) {
  const Tensor x = zeros({1, 3, 8, 8}), weight = zeros({4, 3, 3, 3});
  const Conv2dOptions bad[] = {{.stride = {0, 1}},
                               {.padding = {0, -1}},
                               {.dilation = {0, 1}},
                               {.groups = 0},
                               {.padding = {std::int64_t{1} << 62, 0}}};
  for (const Conv2dOptions& options : bad)
    expect_throws<ValueError>([&] { convolution(x, weight, {}, options); }, "conv2d: ");
}

TEST(ConvolutionTest, ThrowsWhenDtypesOrDevicesDisagree) {
  const Tensor x = zeros({1, 3, 8, 8});
  expect_throws<DTypeError>(
      [&] {
        convolution(x, zeros({4, 3, 3, 3}, {.dtype = DType::float64}), {}, kPlain);
      },
      "conv2d: dtypes must be equal; got float32 and float64");
  expect_throws<DeviceError>(
      [&] {
        convolution(x, zeros({4, 3, 3, 3}, {.device = "cpu:1"}), {}, kPlain);
      },
      "conv2d: tensors must be on one device");
}

}  // namespace
}  // namespace ringrad::kernels
