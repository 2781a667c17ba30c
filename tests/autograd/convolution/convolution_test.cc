#include "ringrad/autograd/convolution/convolution.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
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
