// Lion, Muon, LBFGS and averages: what PyTorch's figures (optimizer_golden_test.cc) do not show.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/optimizer/adagrad.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/exponential_moving_average.h"
#include "ringrad/nn/optimizer/lbfgs.h"
#include "ringrad/nn/optimizer/lion.h"
#include "ringrad/nn/optimizer/muon.h"
#include "ringrad/nn/optimizer/rmsprop.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {

static_assert(!std::is_copy_constructible_v<SGD> && std::is_move_constructible_v<SGD>);
static_assert(!std::is_copy_constructible_v<LBFGS> && std::is_move_constructible_v<LBFGS>);
static_assert(!std::is_copy_assignable_v<ExponentialMovingAverage>);

namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;

struct Net : Module {
  nn::Linear& first = child("first", nn::Linear(3, 4));
  nn::Linear& last = child("last", nn::Linear(4, 1));
  Tensor forward(const Tensor& x, Where = Where::current()) override {
    return last(tanh(first(x)));
  }
};

TEST(LionTest, MovesEachElementByTheRateInTheDirectionOfTheMixedMomentum) {
  const Tensor p = tensor({1., 2., 3., 4.}).set_requires_grad();
  Lion optimizer({p}, {.learning_rate = 0.5, .beta1 = 0.75, .beta2 = 0.5, .weight_decay = 0.5});
  p.set_grad(tensor({8., -8., 0., 8.}));
  optimizer.step();
  // 0.75 p - 0.5 sign(g), m = g / 2
  expect_close(p, {0.25, 2, 2.25, 2.5});
  // 0.75 m + 0.25 g = 3 + 0.25 g: the momentum outweighs the last element's gradient.
  p.set_grad(tensor({-16., -8., 0., -8.}));
  optimizer.step();
  expect_close(p, {0.1875 + 0.5, 1.5 + 0.5, 2.25 * 0.75, 1.875 - 0.5});
  expect_close(optimizer.state_dict().at("0.momentum"), {-6, -6, 0, -2});
}

TEST(MuonTest, OrthogonalizedMatricesHaveSingularValuesNearOne) {
  Random random(1);
  for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{5, 5}})
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      // The rows are not alike: their lengths differ by a factor of 10.
      const Tensor x =
          random.tensor(shape) * (0.2 + 0.3 * reshape(arange(shape[0]), {shape[0], 1}));
      const Tensor y = orthogonalized(x, 5, dtype);
      ASSERT_EQ(y.dtype(), DType::float32);
      const bool tall = shape[0] > shape[1];
      const Tensor gram = tall ? matmul(transpose(y, 0, 1), y) : matmul(y, transpose(y, 0, 1));
      // Its eigenvalues are the squares of the singular values. Their mean is trace / n, and
      // powers of the matrix show the largest.
      const std::int64_t n = gram.shape()[0];
      const Tensor eye = reshape(arange(n), {n, 1}) == arange(n);
      const auto trace = [&](const Tensor& m) {
        return sum(where(eye, m, zeros_like(m))).item<double>() / static_cast<double>(n);
      };
      EXPECT_GT(trace(gram), 0.49);
      Tensor power = gram;
      for (int i = 0; i < 4; ++i) power = matmul(power, power);  // of 16
      EXPECT_LT(std::pow(static_cast<double>(n) * trace(power), 1. / 16), 1.5);
    }
  // The direction is kept: an orthogonal matrix only grows or shrinks.
  const Tensor rotation = tensor({{0.6, -0.8}, {0.8, 0.6}});
  const Tensor y = orthogonalized(rotation * 100, 5, DType::float32);
  expect_close(y * (0.6 / y.to_vector<float>()[0]), rotation, 64);
  expect_close(orthogonalized(zeros({3, 2})), zeros({3, 2}));
}

TEST(MuonTest, TakesGroupsAndParametersInAnyMemoryOrder) {
  Random random(2);
  const Tensor value = random.tensor({3, 5}), gradient = random.tensor({3, 5});
  std::vector<Tensor> results;
  for (const bool transposed : {false, true}) {
    const Tensor w = (transposed ? transpose(clone(transpose(value, 0, 1)), 0, 1) : clone(value));
    const Tensor p = w.set_requires_grad(), other = clone(value).set_requires_grad();
    Muon optimizer({{.parameters = {p}}, {.parameters = {other}, .learning_rate_scale = 0}},
                   {.dtype = DType::float32});
    for (const Tensor& parameter : {p, other}) parameter.set_grad(gradient);
    optimizer.step();
    expect_same_bits(other, value);
    results.push_back(clone(p));
  }
  expect_close(results[0], results[1], 64);
}

// muon.h: matrices here, all the rest there, of one model that a wrapper has packed.
TEST(MuonTest, SharesAWrappedModelWithAdamW) {
  std::vector<StateDict> results;
  for (const bool is_wrapped : {false, true}) {
    Net net;
    std::vector<Tensor> matrices, others;
    for (const Tensor& parameter : net.parameters()) {
      fill_(parameter.detach(), 0.5);
      (parameter.dims() == 2 ? matrices : others).push_back(parameter);
    }
    std::optional<ParameterArena> wrapped;
    if (is_wrapped) wrapped.emplace(net.parameters());
    Muon muon(matrices, {.dtype = DType::float32});
    AdamW adam(others);
    Random random(1);
    for (int step = 0; step < 3; ++step) {
      muon.zero_grad();
      adam.zero_grad();
      for (const Tensor& parameter : net.parameters())
        sum(parameter * random.tensor(parameter.shape())).backward();
      if (is_wrapped) wrapped->settle();
      muon.step();
      adam.step();
    }
    results.push_back(clone_state(net.state_dict()));
    std::int64_t count = 0;
    for (const Tensor& parameter : others) count += parameter.numel();
    EXPECT_LE(adam.state_bytes(), 2 * 4 * (count + 16 * static_cast<std::int64_t>(others.size())));
  }
  for (const auto& [name, tensor] : results[0]) expect_same_bits(tensor, results[1].at(name));
}

// float16 holds neither such elements nor the sum of their squares.
TEST(MuonTest, OrthogonalizesInFloat16WhateverTheSizeOfTheElements) {
  for (const double size : {1e-9, 1e-3, 1e6}) {
    const Tensor x = eye(4) * size, exact = orthogonalized(x, 5, DType::float32);
    EXPECT_LT(max(abs(orthogonalized(x, 5, DType::float16) - exact)).item(), 0.05) << size;
  }
}

TEST(MuonTest, ComputesInItsOwnDTypeWithinAutocast) {
  Random random(7);
  const Tensor x = random.tensor({6, 4});
  const Tensor expected = orthogonalized(x, 5, DType::float32);
  const Autocast mixed(DType::bfloat16);
  expect_same_bits(orthogonalized(x, 5, DType::float32), expected);
}

TEST(LBFGSTest, SolvesLeastSquaresToTheLastDigits) {
  Random random(3);
  const Tensor a = random.tensor({20, 4}, DType::float64),
               truth = random.tensor({4}, DType::float64);
  const Tensor y = matmul(a, truth);
  const Tensor x = zeros({4}, {.dtype = DType::float64}).set_requires_grad();
  LBFGS optimizer({x});
  const auto loss = [&] { return sum(square(matmul(a, x) - y)); };
  const double before = optimizer.step(loss);
  EXPECT_GT(before, 1e-3);
  EXPECT_LT(loss().item<double>(), 1e-9);  // the options' tolerance
  expect_close(to(x, DType::float32), to(truth, DType::float32), 64);
  // At the minimum a step changes nothing.
  const Tensor solution = clone(x.detach());
  for (int i = 0; i < 3; ++i) optimizer.step(loss);
  expect_close(x, solution, 64);
}

// The first step ends where the slope is less than the tolerance, before any move.
TEST(LBFGSTest, GoesOnAfterAStepThatEndedEarly) {
  const Tensor x = tensor({1., 2.}, DType::float64).set_requires_grad();
  double size = 1e-6;
  LBFGS optimizer({x});
  const auto loss = [&] { return sum(square(x - tensor({3., -1.}, DType::float64))) * size; };
  const std::vector<double> begin = x.to_vector<double>();
  optimizer.step(loss);
  EXPECT_EQ(x.to_vector<double>(), begin);
  optimizer.step(loss);
  size = 1;
  for (int i = 0; i < 3; ++i) optimizer.step(loss);
  EXPECT_NEAR(x.to_vector<double>()[0], 3, 1e-7);
  EXPECT_NEAR(x.to_vector<double>()[1], -1, 1e-7);
  // A later step that ends early, and a loss that throws, leave no half of a pair behind.
  fill_(x.detach(), 5);
  size = 1e-6;
  optimizer.step(loss);
  size = 1;
  int calls = 0;
  EXPECT_THROW(
      optimizer.step([&] { return ++calls == 2 ? throw std::runtime_error("full") : loss(); }),
      std::runtime_error);
  for (int i = 0; i < 3; ++i) optimizer.step(loss);
  EXPECT_NEAR(x.to_vector<double>()[0], 3, 1e-4);
}

TEST(LBFGSTest, TrainsPiecesOfAWrappedModel) {
  Random random(5);
  const Tensor a = random.tensor({20, 3}, DType::float64), y = random.tensor({20}, DType::float64);
  const auto solution = [&](bool is_wrapped) {
    const Options wide{.dtype = DType::float64};
    const Tensor x = zeros({3}, wide).set_requires_grad(),
                 other = ones({2}, wide).set_requires_grad(),
                 c = zeros({1}, wide).set_requires_grad();
    std::optional<ParameterArena> wrapped;
    if (is_wrapped) wrapped.emplace(std::vector{x, other, c});
    LBFGS optimizer({x, c});
    for (int i = 0; i < 3; ++i) optimizer.step([&] { return sum(square(matmul(a, x) + c - y)); });
    EXPECT_EQ(other.to_vector<double>(), (std::vector<double>{1, 1}));
    return x.to_vector<double>();
  };
  const auto alone = solution(false), piece = solution(true);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(alone[i], piece[i], 1e-6);
}

// What it has learnt of the curvature would move them.
TEST(LBFGSTest, LeavesParametersAloneThatAreFrozenLater) {
  const Tensor x = zeros({2}).set_requires_grad(), y = zeros({2}).set_requires_grad();
  LBFGS optimizer({x, y}, {.max_iterations = 2});
  const auto loss = [&] { return sum(square(x + y - 1) + square(x - 3) * 5 + square(y) * 2); };
  for (int i = 0; i < 2; ++i) optimizer.step(loss);
  x.set_requires_grad(false);
  fill_(x.detach(), 2);
  for (int i = 0; i < 5; ++i) optimizer.step(loss);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{2, 2}));
  EXPECT_NEAR(y.to_vector<double>()[0], -1. / 3, 1e-4);  // 2 (2 + y - 1) + 4 y = 0
}

// log(x) is NaN where the first trials of the search lie.
TEST(LBFGSTest, AStepToNanIsTooLong) {
  const Tensor x = tensor({0.01}, DType::float64).set_requires_grad();
  LBFGS optimizer({x}, {.learning_rate = 50});
  for (int i = 0; i < 5; ++i) optimizer.step([&] { return sum(x - log(4 - x) - log(x)); });
  // 1 + 1 / (4 - x) - 1 / x = 0
  EXPECT_NEAR(x.item<double>(), 3 - std::sqrt(5.), 1e-5);
}

// The sums of 100 gradients of 2e4, and of their squares, are infinite in float16.
TEST(LBFGSTest, Trains16BitParameters) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor w = full({100}, 100, {.dtype = dtype}).set_requires_grad();
    LBFGS optimizer({w});
    for (int i = 0; i < 5; ++i)
      optimizer.step([&] { return sum(square(to(w, DType::float32) * 10 - 1)); });
    for (const float x : to(w.detach(), DType::float32).to_vector<float>())
      EXPECT_NEAR(x, 0.1, 1e-3);
  }
}

TEST(LBFGSTest, TakesLargeGradients) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  LBFGS optimizer({x});
  for (int i = 0; i < 5; ++i) optimizer.step([&] { return sum(square(x)) * 1e25; });
  EXPECT_LT(max(abs(x.detach())).item(), 1e-3);
}

// The square root's gradient at 0 is infinite.
TEST(LBFGSTest, EndsWhereTheGradientIsNotFinite) {
  const Tensor w = tensor({0., 2.}).set_requires_grad();
  LBFGS optimizer({w});
  for (int i = 0; i < 2; ++i) optimizer.step([&] { return sum(sqrt(w)); });
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{0, 2}));
  const Tensor x = tensor({0.25}).set_requires_grad();
  LBFGS other({x});
  for (int i = 0; i < 5; ++i) other.step([&] { return sum(sqrt(relu(x))); });
  EXPECT_TRUE(std::isfinite(x.item()));
}

TEST(LBFGSTest, ALossThatThrowsLeavesNoTrialBehind) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  LBFGS optimizer({x, zeros({0}).set_requires_grad()}), empty({zeros({0}).set_requires_grad()});
  EXPECT_EQ(empty.step([&] { return sum(x); }), 3);
  int calls = 0;
  const auto loss = [&] { return ++calls == 2 ? throw std::runtime_error("full") : sum(x * x); };
  EXPECT_THROW(optimizer.step(loss), std::runtime_error);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
}

// p - 1 * (p - w) is 0 for p much larger than w.
TEST(ExponentialMovingAverageTest, ASmallDecayKeepsSmallWeights) {
  Net net;
  for (const double decay : {0., 0.25}) {
    fill_(net.last.bias.detach(), 1e8);
    ExponentialMovingAverage average(net, {.decay = decay});
    fill_(net.last.bias.detach(), 1);
    average.update();
    expect_close(average.state_dict().at("last.bias"), full({1}, 1 + decay * (1e8 - 1)));
  }
}

TEST(ExponentialMovingAverageTest, TheNetHasTheAverageForAWhile) {
  Net net;
  SGD optimizer(net.parameters(), {.learning_rate = 0.1});
  ExponentialMovingAverage average(net, {.decay = 0.75});
  const Tensor before = clone(net.last.weight.detach());
  fill_(net.last.weight.detach(), 8);
  average.update();
  const Tensor expected = before * 0.75 + 2;
  const std::uint32_t version = net.last.weight.version();
  {
    const auto applied = average.applied();
    expect_close(net.last.weight, expected);
    EXPECT_NE(net.last.weight.version(), version);
  }
  expect_close(net.last.weight, full_like(before, 8));
  expect_close(average.state_dict().at("last.weight"), expected);
  average.apply();
  expect_close(net.last.weight, expected);
}

TEST(ExponentialMovingAverageTest, AveragesOf16BitWeightsMoveBySmallSteps) {
  Net net;
  net.to(DType::bfloat16);
  ExponentialMovingAverage average(net, {.decay = 0.999});
  fill_(net.first.bias.detach(), 1);
  average.load_state_dict([&] {
    StateDict state;
    for (const auto& [name, tensor] : average.state_dict()) state.emplace(name, ones_like(tensor));
    return state;
  }());
  fill_(net.first.bias.detach(), 1.0078125);  // the next number of bfloat16
  average.update();
  EXPECT_EQ(average.state_dict().at("first.bias").dtype(), DType::float32);
  expect_close(average.state_dict().at("first.bias"), full({4}, 1 + 0.0078125e-3));
}

TEST(ExponentialMovingAverageTest, NoticesParametersThatMoved) {
  Net net;
  ExponentialMovingAverage average(net);
  net.to(DType::float64);
  expect_throws<AutogradError>([&] { average.update(); }, "stay where they were");
}

TEST(FurtherOptimizersTest, AStepThatThrowsChangesNoParameter) {
  const Tensor a = ones({2}).set_requires_grad(),
               b = ones({2}, {.dtype = DType::float64}).set_requires_grad();
  SGD optimizer({a, b}, {.learning_rate = 1});
  (sum(a) + to(sum(b), DType::float32)).backward();
  b.set_data(zeros({2}, {.dtype = DType::float64}));  // as Module::to() does
  expect_throws<AutogradError>([&] { optimizer.step(); }, "must stay where it was packed");
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(optimizer.state_dict().at("step").item<std::int64_t>(), 0);
  expect_throws<AutogradError>([&] { clip_grad_norm(std::vector{a * 2}, 1); }, "must be leaves");
}

TEST(FurtherOptimizersTest, RefuseOptionsOutsideTheirDomain) {
  const std::vector<Tensor> p{ones({2, 2}).set_requires_grad()};
  expect_throws<ValueError>([&] { RMSprop optimizer(p, {.alpha = 1.5}); }, "alpha");
  expect_throws<ValueError>([&] { RMSprop optimizer(p, {.momentum = -1}); }, "momentum");
  expect_throws<ValueError>([&] { Adagrad optimizer(p, {.initial_sum = -1}); }, "initial_sum");
  expect_throws<ValueError>([&] { Lion optimizer(p, {.beta2 = 1}); }, "beta2");
  expect_throws<ValueError>([&] { Muon optimizer(p, {.iterations = 0}); }, "iterations");
  expect_throws<DTypeError>([&] { Muon optimizer(p, {.dtype = DType::int32}); }, "floating");
  expect_throws<ShapeError>([] { Muon optimizer({ones({2}).set_requires_grad()}); },
                            "must be matrices; got one of shape (2,)");
  expect_throws<ValueError>([&] { LBFGS optimizer(p, {.history = 0}); }, "history");
  expect_throws<ValueError>([] { LBFGS optimizer({}); }, "at least one");
  expect_throws<ValueError>(
      [&] {
        LBFGS optimizer({p[0], ones({2}, {.dtype = DType::float64}).set_requires_grad()});
      },
      "one dtype and device; got float32 on");
  for (const double bad : {std::numeric_limits<double>::infinity(), -1., std::nan("")}) {
    expect_throws<ValueError>([&] { RMSprop o(p, {.alpha = bad}); }, "alpha");
    expect_throws<ValueError>([&] { RMSprop o(p, {.eps = bad}); }, "eps");
    expect_throws<ValueError>([&] { RMSprop o(p, {.weight_decay = bad}); }, "weight_decay");
    expect_throws<ValueError>([&] { RMSprop o(p, {.momentum = bad}); }, "momentum");
    expect_throws<ValueError>([&] { Adagrad o(p, {.learning_rate = bad}); }, "learning rate");
    expect_throws<ValueError>([&] { Adagrad o(p, {.learning_rate_decay = bad}); }, "rate_decay");
    expect_throws<ValueError>([&] { Adagrad o(p, {.weight_decay = bad}); }, "weight_decay");
    expect_throws<ValueError>([&] { Adagrad o(p, {.initial_sum = bad}); }, "initial_sum");
    expect_throws<ValueError>([&] { Adagrad o(p, {.eps = bad}); }, "eps");
    expect_throws<ValueError>([&] { Lion o(p, {.beta1 = bad}); }, "beta1");
    expect_throws<ValueError>([&] { Lion o(p, {.weight_decay = bad}); }, "weight_decay");
    expect_throws<ValueError>([&] { Muon o(p, {.momentum = bad}); }, "momentum");
    expect_throws<ValueError>([&] { Muon o(p, {.weight_decay = bad}); }, "weight_decay");
    expect_throws<ValueError>([&] { LBFGS o(p, {.learning_rate = bad}); }, "learning_rate");
    expect_throws<ValueError>([&] { LBFGS o(p, {.gradient_tolerance = bad}); }, "gradient_tol");
    expect_throws<ValueError>([&] { LBFGS o(p, {.change_tolerance = bad}); }, "change_tolerance");
  }
  Net net;
  expect_throws<ValueError>([&] { ExponentialMovingAverage(net, {.decay = 1.5}); }, "1.5");
  expect_throws<ValueError>([&] { ExponentialMovingAverage(net, {.decay = NAN}); }, "nan");
}

}  // namespace
}  // namespace ringrad::nn
