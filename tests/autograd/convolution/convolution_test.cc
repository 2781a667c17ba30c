#include "ringrad/autograd/convolution/convolution.h"

#include "ringrad/autograd/autocast.h"
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

struct Row {
  const char* name;
  Shape x, weight;
  Conv2dOptions options;
};

const Row kRows[] = {
    {"1x1", {2, 2, 3, 2}, {3, 2, 1, 1}, {}},
    {"padded 3x3", {2, 2, 4, 3}, {2, 2, 3, 3}, {.padding = {1, 1}}},
    {"stride that leaves pixels over", {1, 2, 6, 5}, {2, 2, 3, 2}, {.stride = {2, 3}}},
    {"dilation", {1, 2, 6, 5}, {2, 2, 2, 3}, {.dilation = {3, 2}}},
    {"groups", {1, 4, 3, 3}, {6, 2, 2, 2}, {.groups = 2}},
    {"depthwise", {2, 3, 3, 3}, {3, 1, 2, 2}, {.padding = {1, 0}, .groups = 3}},
    {"all at once",
     {1, 4, 7, 6},
     {4, 2, 2, 3},
     {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 2}, .groups = 2}},
};

Tensor leaf(Random& random, const Shape& shape) {
  return random.tensor(shape, DType::float64).set_requires_grad();
}

TEST(AutogradConvolutionTest, GradientsAgreeWithDifferences) {
  Random random(1);
  for (const Row& row : kRows) {
    const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
      return conv2d(in[0], in[1], in[2], row.options);
    };
    const std::vector<Tensor> inputs{leaf(random, row.x), leaf(random, row.weight),
                                     leaf(random, {row.weight[0]})};
    EXPECT_EQ(gradient_check(f, inputs), "") << row.name;
    EXPECT_EQ(gradient_gradient_check(f, inputs), "") << row.name;
  }
}

TEST(AutogradConvolutionTest, EachInputAloneGetsAGradient) {
  Random random(2);
  const DifferentiableFunction f = [](const std::vector<Tensor>& in) {
    return conv2d(in[0], in[1], in[2]);
  };
  for (int wanted = 0; wanted < 3; ++wanted) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : {Shape{1, 2, 3, 3}, Shape{2, 2, 2, 2}, Shape{2}})
      inputs.push_back(random.tensor(shape, DType::float64));
    inputs[static_cast<unsigned>(wanted)].set_requires_grad();
    EXPECT_EQ(gradient_check(f, inputs), "") << "input " << wanted;
  }
}

TEST(AutogradConvolutionTest, WorksWithoutBias) {
  Random random(3);
  const DifferentiableFunction f = [](const std::vector<Tensor>& in) {
    return conv2d(in[0], in[1]);
  };
  const std::vector<Tensor> inputs{leaf(random, {1, 2, 3, 3}), leaf(random, {2, 2, 2, 2})};
  EXPECT_EQ(gradient_check(f, inputs), "");
  EXPECT_EQ(gradient_gradient_check(f, inputs), "");
}

// The float32 kernels differ from those of float64, which the tests with differences exercise.
TEST(AutogradConvolutionTest, Float32GradientsAgreeWithFloat64) {
  Random random(4);
  for (const auto& [x_shape, weight_shape, padding] :
       {std::tuple{Shape{2, 16, 7, 6}, Shape{32, 16, 3, 3}, 1},  // Winograd's case
        std::tuple{Shape{2, 3, 9, 8}, Shape{5, 3, 3, 2}, 0}}) {
    const Conv2dOptions options{.padding = {padding, padding}};
    std::vector<Tensor> of_32, of_64;
    for (const Shape& shape : {x_shape, weight_shape, Shape{weight_shape[0]}}) {
      of_32.push_back(random.tensor(shape));
      of_64.push_back(to(of_32.back(), DType::float64).set_requires_grad());
      of_32.back().set_requires_grad();
    }
    sum(square(conv2d(of_32[0], of_32[1], of_32[2], options))).backward();
    sum(square(conv2d(of_64[0], of_64[1], of_64[2], options))).backward();
    for (std::size_t i = 0; i < 3; ++i) expect_close(of_32[i].grad(), of_64[i].grad(), 4096);
  }
}

TEST(AutogradConvolutionTest, AnEmptyBatchGivesZeroGradients) {
  const Tensor weight = ones({2, 1, 2, 2}).set_requires_grad();
  const Tensor bias = ones({2}).set_requires_grad();
  const Tensor y = conv2d(zeros({0, 1, 3, 3}), weight, bias);
  EXPECT_EQ(y.shape(), (Shape{0, 2, 2, 2}));
  sum(y).backward();
  expect_close(weight.grad(), zeros({2, 1, 2, 2}));
  expect_close(bias.grad(), zeros({2}));
}

// -- Transposed --------------------------------------------------------------------------------

// <conv(x), y> = <x, transposed(y)>: the definition of an adjoint.
TEST(AutogradConvolutionTest, TransposedConvolutionIsTheAdjointOfConvolution) {
  Random random(5);
  for (const Row& row : kRows)
    for (const DType dtype : {DType::float32, DType::float64}) {
      SCOPED_TRACE(row.name);
      const Tensor x = random.tensor(row.x, dtype), weight = random.tensor(row.weight, dtype);
      const Tensor convolved = conv2d(x, weight, {}, row.options);
      const Tensor y = random.strided(random.tensor(convolved.shape(), dtype));
      ConvTranspose2dOptions options{.stride = row.options.stride,
                                     .padding = row.options.padding,
                                     .dilation = row.options.dilation,
                                     .groups = row.options.groups};
      for (const unsigned i : {0u, 1u}) {  // what a stride leaves over
        const auto axis = static_cast<int>(i) + 2;
        options.output_padding[i] = (row.x[axis] + 2 * options.padding[i] -
                                     options.dilation[i] * (row.weight[axis] - 1) - 1) %
                                    options.stride[i];
      }
      const Tensor transposed = conv_transpose2d(y, weight, {}, options);
      EXPECT_EQ(transposed.shape(), x.shape());
      expect_close(sum(transposed * x), sum(convolved * y), 4096);
    }
}

TEST(AutogradConvolutionTest, TransposedGradientsAgreeWithDifferences) {
  Random random(6);
  for (const auto& [weight, options] :
       {std::pair{Shape{4, 2, 2, 2}, ConvTranspose2dOptions{.padding = {1, 0}}},
        std::pair{Shape{4, 1, 2, 3},
                  ConvTranspose2dOptions{
                      .stride = {2, 3}, .output_padding = {1, 2}, .dilation = {2, 1}, .groups = 2}},
        std::pair{Shape{4, 1, 2, 2}, ConvTranspose2dOptions{.stride = {2, 1}, .groups = 4}}}) {
    const DifferentiableFunction f = [&, options = options](const std::vector<Tensor>& in) {
      return conv_transpose2d(in[0], in[1], in[2], options);
    };
    const std::vector<Tensor> inputs{leaf(random, {2, 4, 2, 3}), leaf(random, weight),
                                     leaf(random, {weight[1] * options.groups})};
    EXPECT_EQ(gradient_check(f, inputs), "");
    EXPECT_EQ(gradient_gradient_check(f, inputs), "");
  }
}

TEST(AutogradConvolutionTest, ATransposedConvolutionOfOnePixelIsItsFilter) {
  const Tensor weight = reshape(to(arange(12), DType::float32), {1, 2, 2, 3});
  expect_close(conv_transpose2d(full({1, 1, 1, 1}, 2), weight, tensor({1., 0.})),
               {1, 3, 5, 7, 9, 11, 12, 14, 16, 18, 20, 22});
}

// -- Over sequences ------------------------------------------------------------------------------

TEST(AutogradConvolutionTest, SequencesAreImagesOfOneRow) {
  Random random(7);
  const Tensor x = leaf(random, {2, 4, 7}), weight = leaf(random, {6, 2, 3});
  const Tensor bias = leaf(random, {6});
  const Conv1dOptions options{.stride = 2, .padding = 1, .dilation = 2, .groups = 2};
  const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
    return conv1d(in[0], in[1], in[2], options);
  };
  EXPECT_EQ(f({x, weight, bias}).shape(), (Shape{2, 6, 3}));
  expect_close(
      f({x, weight, bias}),
      squeeze(conv2d(unsqueeze(x, 2), unsqueeze(weight, 2), bias,
                     {.stride = {1, 2}, .padding = {0, 1}, .dilation = {1, 2}, .groups = 2}),
              {2}));
  EXPECT_EQ(gradient_check(f, {x, weight, bias}), "");
  const DifferentiableFunction back = [](const std::vector<Tensor>& in) {
    return conv_transpose1d(in[0], in[1], {}, {.stride = 2, .output_padding = 1});
  };
  EXPECT_EQ(back({x, leaf(random, {4, 1, 3})}).shape(), (Shape{2, 1, 16}));
  EXPECT_EQ(gradient_check(back, {x, leaf(random, {4, 1, 3})}), "");
}

// -- Over volumes --------------------------------------------------------------------------------

TEST(AutogradConvolutionTest, GradientsOfVolumesAgreeWithDifferences) {
  Random random(9);
  for (const auto& [weight, options] :
       {std::pair{Shape{2, 4, 2, 2, 2}, Conv3dOptions{.padding = {1, 0, 1}}},
        std::pair{Shape{2, 2, 2, 1, 2},
                  Conv3dOptions{.stride = {2, 1, 1}, .dilation = {1, 2, 2}, .groups = 2}}}) {
    const DifferentiableFunction f = [&, options = options](const std::vector<Tensor>& in) {
      return conv3d(in[0], in[1], in[2], options);
    };
    const std::vector<Tensor> inputs{leaf(random, {1, 4, 3, 2, 3}), leaf(random, weight),
                                     leaf(random, {2})};
    EXPECT_EQ(gradient_check(f, inputs), "");
    EXPECT_EQ(gradient_gradient_check(f, inputs), "");
  }
}

TEST(AutogradConvolutionTest, TheTransposeOfVolumesIsTheAdjoint) {
  Random random(10);
  const Tensor x = leaf(random, {2, 4, 5, 4, 3}), weight = leaf(random, {6, 2, 2, 3, 2});
  const Conv3dOptions options{.stride = {2, 1, 1}, .padding = {0, 1, 0}, .groups = 2};
  const Tensor y = leaf(random, conv3d(x, weight, {}, options).shape());
  const auto back = [](const std::vector<Tensor>& in) {
    return conv_transpose3d(
        in[0], in[1], in[2],
        {.stride = {2, 1, 1}, .padding = {0, 1, 0}, .output_padding = {1, 0, 0}, .groups = 2});
  };
  const Tensor bias = leaf(random, {4}), none = zeros({4}, {.dtype = DType::float64});
  EXPECT_EQ(back({y, weight, bias}).shape(), x.shape());
  expect_close(sum(back({y, weight, none}) * x), sum(conv3d(x, weight, {}, options) * y), 4096);
  EXPECT_EQ(gradient_check(back, {y, weight, bias}), "");
}

TEST(AutogradConvolutionTest, SixteenBitsAgreeWithFloat32) {
  Random random(8);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = random.tensor({1, 3, 4, 4}, dtype),
                 weight = random.tensor({3, 2, 3, 3}, dtype);
    const Tensor bias = random.tensor({2}, dtype);
    const ConvTranspose2dOptions options{.stride = {2, 2}, .padding = {1, 1}};
    const auto wide = [](const Tensor& t) { return to(t, DType::float32); };
    expect_close(conv_transpose2d(x, weight, bias, options),
                 conv_transpose2d(wide(x), wide(weight), wide(bias), options), 64);
    if (!default_device().is_cuda())  // rounded once
      expect_same_bits(conv_transpose2d(x, weight, bias, options),
                       to(conv_transpose2d(wide(x), wide(weight), wide(bias), options), dtype));
    const Tensor volume = random.tensor({2, 3, 3, 3, 3}, dtype),
                 filter = random.tensor({2, 3, 2, 2, 2}, dtype);
    expect_close(conv3d(volume, filter, bias), conv3d(wide(volume), wide(filter), wide(bias)), 64);
    const Autocast autocast(dtype);
    EXPECT_EQ(conv3d(wide(volume), wide(filter)).dtype(), dtype);
  }
}

// -- Errors ------------------------------------------------------------------------------------

TEST(AutogradConvolutionTest, TransposedThrowsAtTheCallersLine) {
  const Tensor x = zeros({1, 4, 5, 5}), weight = zeros({4, 2, 3, 3});
  expect_throws<ShapeError>(
      [&] {
        conv_transpose2d(x, zeros({2, 4, 3, 3}));
      },
      "conv_transpose2d: input must be (B, K, P, Q)");
  expect_throws<ShapeError>([&] { conv_transpose2d(x, weight, zeros({3})); },
                            "bias must have shape (2,); got (3,)");
  expect_throws<ShapeError>(
      [&] {
        conv_transpose2d(x, weight, {}, {.padding = {9, 0}});
      },
      "input and result must have pixels");
  expect_throws<ValueError>(
      [&] {
        conv_transpose2d(x, weight, {}, {.output_padding = {1, 0}});
      },
      "less than the stride; got stride 1");
  expect_throws<ShapeError>([&] { conv_transpose2d(x, weight, {}, {.groups = 3}); },
                            "K must be a multiple of groups");
  expect_throws<ShapeError>(
      [&] { conv1d(x, weight); },
      "conv1d: input must be (B, C, L) and weight (K, C / groups, S); got (1, 4, "
      "5, 5)");
  expect_throws<DTypeError>([&] { conv_transpose2d(x, to(weight, DType::float64)); },
                            "conv_transpose2d: ");
  expect_throws<DTypeError>([&] { conv_transpose2d(x, weight, to(zeros({2}), DType::float64)); },
                            "conv_transpose2d: ");
}

TEST(AutogradConvolutionTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({1, 4, 5, 5}), weight = zeros({2, 4, 3, 3});
  expect_throws<ShapeError>([&] { conv2d(zeros({4, 5, 5}), weight); }, "conv2d: ");
  expect_throws<ShapeError>([&] { conv2d(x, zeros({2, 3, 3, 3})); }, "conv2d: ");
  expect_throws<ShapeError>([&] { conv2d(x, zeros({2, 4, 6, 3})); }, "conv2d: ");
  expect_throws<ShapeError>([&] { conv2d(x, weight, zeros({3})); }, "conv2d: ");
  expect_throws<ValueError>([&] { conv2d(x, weight, {}, {.stride = {0, 1}}); }, "conv2d: ");
  expect_throws<ValueError>([&] { conv2d(x, weight, {}, {.groups = 0}); }, "conv2d: ");
  expect_throws<DTypeError>(
      [&] {
        conv2d(x, zeros({2, 4, 3, 3}, {.dtype = DType::float64}));
      },
      "conv2d");
  expect_throws<DeviceError>(
      [&] {
        conv2d(x, zeros({2, 4, 3, 3}, {.device = Device(DeviceType::cpu, 1)}));
      },
      "conv2d");
}

}  // namespace
}  // namespace ringrad
