#include "ringrad/autograd/matmul/matmul.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

const DifferentiableFunction kMatmul = [](const std::vector<Tensor>& in) {
  return matmul(in[0], in[1]);
};

Tensor leaf(Random& random, const Shape& shape) {
  return random.tensor(shape, DType::float64).set_requires_grad();
}

// A linear layer written out, for comparison.
Tensor plain_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu_after) {
  const Tensor y = matmul(x, transpose(weight, 0, 1)) + bias;
  return relu_after ? relu(y) : y;
}

// -- matmul ---------------------------------------------------------------------------------------

TEST(AutogradMatmulTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const std::pair<Shape, Shape> pairs[] = {
      {{2, 3}, {3, 4}},           // matrices
      {{3}, {3}},                 // an inner product
      {{3}, {3, 2}},              // a row
      {{2, 3}, {3}},              // a column
      {{3}, {2, 3, 2}},           // a row in every batch
      {{2, 2, 3}, {3}},           // a column in every batch
      {{2, 2, 3}, {3, 2}},        // one right side for all
      {{2, 3}, {2, 3, 2}},        // one left side for all
      {{2, 1, 2, 3}, {3, 3, 2}},  // both sides broadcast
      {{1, 1}, {1, 1}},
  };
  for (const auto& [a, b] : pairs) {
    const std::vector<Tensor> inputs{leaf(random, a), leaf(random, b)};
    EXPECT_EQ(gradient_check(kMatmul, inputs), "") << a << " x " << b;
    EXPECT_EQ(gradient_gradient_check(kMatmul, inputs), "") << a << " x " << b;
  }
}

TEST(AutogradMatmulTest, OneSideAloneGetsAGradient) {
  Random random(2);
  const Tensor a = leaf(random, {2, 3}), b = random.tensor({3, 2}, DType::float64);
  EXPECT_EQ(gradient_check(kMatmul, {a, b}), "");
  EXPECT_EQ(gradient_check(kMatmul, {b, a}), "");
}

TEST(AutogradMatmulTest, DifferentiatesATensorTimesItself) {
  Random random(3);
  const DifferentiableFunction squared = [](const std::vector<Tensor>& in) {
    return matmul(in[0], transpose(in[0], 0, 1));
  };
  EXPECT_EQ(gradient_check(squared, {leaf(random, {3, 2})}), "");
  EXPECT_EQ(gradient_gradient_check(squared, {leaf(random, {3, 2})}), "");
}

TEST(AutogradMatmulTest, SumsOverNothingGiveZeroGradients) {
  const Tensor a = zeros({2, 0}).set_requires_grad(), b = zeros({0, 3}).set_requires_grad();
  const Tensor y = matmul(a, b);
  expect_close(y, zeros({2, 3}));
  sum(y).backward();
  EXPECT_EQ(a.grad().shape(), (Shape{2, 0}));
  EXPECT_EQ(b.grad().shape(), (Shape{0, 3}));
}

TEST(AutogradMatmulTest, EmptyBatchesGiveZeroGradientsToTheSharedSide) {
  const Tensor a = zeros({0, 2, 3}).set_requires_grad(), b = ones({3, 2}).set_requires_grad();
  sum(matmul(a, b)).backward();
  expect_close(b.grad(), zeros({3, 2}));
}

TEST(AutogradMatmulTest, ThrowsAtTheCallersLine) {
  const Tensor a = zeros({2, 3});
  expect_throws<ShapeError>([&] { matmul(a, a); }, "matmul: ");
  expect_throws<ShapeError>([&] { matmul(zeros({}), a); }, "at least one axis; got ()");
  expect_throws<ShapeError>([&] { matmul(a, zeros({2})); }, "matmul: ");
  expect_throws<ShapeError>([&] { matmul(zeros({2, 2, 3}), zeros({3, 3, 2})); }, "matmul: ");
  expect_throws<DTypeError>([&] { matmul(a, zeros({3, 2}, {.dtype = DType::float64})); }, "matmul");
  expect_throws<DeviceError>(
      [&] {
        matmul(a, zeros({3, 2}, {.device = Device(DeviceType::cpu, 1)}));
      },
      "matmul");
}

// -- linear ---------------------------------------------------------------------------------------

TEST(AutogradLinearTest, GradientsAgreeWithDifferences) {
  Random random(4);
  for (const Shape& shape : {Shape{3}, Shape{2, 3}, Shape{2, 2, 3}}) {
    for (const bool relu : {false, true}) {
      const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
        return linear(in[0], in[1], in[2], relu);
      };
      const std::vector<Tensor> inputs{leaf(random, shape), leaf(random, {4, 3}),
                                       leaf(random, {4})};
      EXPECT_EQ(gradient_check(f, inputs), "") << shape << (relu ? " relu" : "");
      EXPECT_EQ(gradient_gradient_check(f, inputs), "") << shape << (relu ? " relu" : "");
    }
  }
}

TEST(AutogradLinearTest, WorksWithoutBias) {
  Random random(5);
  const DifferentiableFunction f = [](const std::vector<Tensor>& in) {
    return linear(in[0], in[1]);
  };
  const std::vector<Tensor> inputs{leaf(random, {2, 3}), leaf(random, {4, 3})};
  EXPECT_EQ(gradient_check(f, inputs), "");
  EXPECT_EQ(gradient_gradient_check(f, inputs), "");
}

TEST(AutogradLinearTest, IsTheProductWithTheTransposedWeight) {
  Random random(6);
  const Tensor x = random.strided(random.tensor({3, 2, 5}));
  const Tensor weight = random.strided(random.tensor({4, 5})), bias = random.tensor({4});
  for (const bool relu : {false, true})
    expect_close(linear(x, weight, bias, relu), plain_linear(x, weight, bias, relu));
}

TEST(AutogradLinearTest, AnEmptyBatchGivesZeroGradients) {
  const Tensor weight = ones({4, 3}).set_requires_grad(), bias = ones({4}).set_requires_grad();
  const Tensor y = linear(zeros({0, 3}), weight, bias, true);
  EXPECT_EQ(y.shape(), (Shape{0, 4}));
  sum(y).backward();
  expect_close(weight.grad(), zeros({4, 3}));
  expect_close(bias.grad(), zeros({4}));
}

TEST(AutogradLinearTest, SumsOverNothingGiveTheBias) {
  for (const Shape& shape : {Shape{0}, Shape{2, 0}, Shape{2, 3, 0}, Shape{0, 3, 0}}) {
    SCOPED_TRACE(concat(shape));
    const Tensor x = zeros(shape).set_requires_grad();
    const Tensor weight = ones({4, 0}).set_requires_grad(), bias = full({4}, 3).set_requires_grad();
    const Tensor y = linear(x, weight, bias);
    Shape y_shape = shape;
    y_shape[shape.size() - 1] = 4;
    expect_close(y, full(y_shape, 3));
    sum(y).backward();
    EXPECT_EQ(x.grad().shape(), shape);
    EXPECT_EQ(weight.grad().shape(), (Shape{4, 0}));
    expect_close(bias.grad(), full({4}, static_cast<double>(y.numel() / 4)));
  }
}

// The input of a first layer and the weight of a frozen layer may change before backward.
TEST(AutogradLinearTest, WhatNoGradientIsMadeOfMayBeChangedInPlace) {
  Random random(7);
  const Tensor a = random.tensor({3, 2}), b = random.tensor({4, 2});
  using Product = Tensor (*)(const Tensor& x, const Tensor& weight);
  const Product products[] = {
      [](const Tensor& x, const Tensor& weight) { return linear(x, weight); },
      [](const Tensor& x, const Tensor& weight) { return matmul(x, transpose(weight, 0, 1)); },
      [](const Tensor& x, const Tensor& weight) { return x * slice(weight, 0, 0, 3); }};
  for (const Product product : products)
    for (const bool learns_weight : {false, true}) {
      const Tensor x = clone(a).set_requires_grad(!learns_weight);
      const Tensor weight = clone(b).set_requires_grad(learns_weight);
      const Tensor& learned = learns_weight ? weight : x;
      const Tensor expected = grad(product(x, weight), learned, ones(product(x, weight).shape()));
      const Tensor y = product(x, weight);
      const NoGradGuard guard;
      mul_(learned, 2);
      y.backward(ones(y.shape()));
      expect_close(learned.grad(), expected);
    }
}

TEST(AutogradLinearTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({2, 3}), weight = zeros({4, 3});
  expect_throws<ShapeError>([&] { linear(x, zeros({4, 2})); }, "share K; got (2, 3) and (4, 2)");
  expect_throws<ShapeError>([&] { linear(x, zeros({3})); }, "linear");
  expect_throws<ShapeError>([&] { linear(zeros({}), weight); }, "linear");
  expect_throws<ShapeError>([&] { linear(x, weight, zeros({3})); }, "bias");
  expect_throws<DTypeError>([&] { linear(x, zeros({4, 3}, {.dtype = DType::float64})); }, "");
}

}  // namespace
}  // namespace ringrad
