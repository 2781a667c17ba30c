#include "ringrad/nn/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/node.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_throws;

std::vector<Tensor> parameters() {
  return {tensor({1., 2., 3.}).set_requires_grad(), tensor({{4., 5.}}).set_requires_grad()};
}

TEST(OptimizerTest, UnreachedParametersAreLeftAlone) {
  for (const bool is_read : {false, true}) {  // reading its grad() gives zeros and changes nothing
    const auto p = parameters();
    SGD optimizer(p, {.learning_rate = 1, .momentum = 0.5, .weight_decay = 1});
    sum(p[1] * 0).backward();
    optimizer.step();
    const StateDict state = optimizer.state_dict();
    EXPECT_EQ(state.at("0.momentum").to_vector<float>(), (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(state.at("1.momentum").to_vector<float>(), (std::vector<float>{4, 5}));
    EXPECT_EQ(state.at("0.steps").item<std::int64_t>(), 0);
    EXPECT_EQ(state.at("1.steps").item<std::int64_t>(), 1);
    optimizer.zero_grad();
    sum(p[0] * 2).backward();
    if (is_read) {
      EXPECT_EQ(p[1].grad().to_vector<float>(), (std::vector<float>{0, 0}));
    }
    optimizer.step();
    EXPECT_EQ(p[0].to_vector<float>(), (std::vector<float>{-2, -2, -2}));
    EXPECT_EQ(p[1].to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_EQ(state.at("1.momentum").to_vector<float>(), (std::vector<float>{4, 5}));
  }
}

TEST(OptimizerTest, AGradientThatIsWrittenByHandCounts) {
  const auto p = parameters();
  SGD optimizer(p, {.learning_rate = 1});
  optimizer.zero_grad();
  p[0].set_grad(tensor({1., 1., 1.}));
  fill_(p[1].grad(), 2);
  optimizer.step();
  EXPECT_EQ(p[0].to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(p[1].to_vector<float>(), (std::vector<float>{2, 3}));
  p[0].set_grad({});
  optimizer.step();
  EXPECT_EQ(p[0].to_vector<float>(), (std::vector<float>{0, 1, 2}));
}

TEST(OptimizerTest, AParameterInTheMiddleIsLeftAlone) {
  std::vector<Tensor> p;
  for (int i = 0; i < 5; ++i) p.push_back(full({33}, 4).set_requires_grad());
  Adam optimizer(p, {.learning_rate = 1, .weight_decay = 1});
  for (const std::size_t i : {0, 1, 3}) sum(p[i]).backward();
  optimizer.step();
  for (std::size_t i = 0; i < p.size(); ++i)
    ringrad::testing::expect_close(p[i], full({33}, i == 2 || i == 4 ? 4 : 3));
}

TEST(OptimizerTest, StepAfterTheForwardPassInvalidatesIt) {
  const auto p = parameters();
  SGD optimizer(p, {.learning_rate = 1});
  const Tensor loss = sum(square(p[0]));
  p[0].set_grad(ones({3}));
  optimizer.step();
  EXPECT_THROW(loss.backward(), AutogradError);
}

TEST(OptimizerTest, MixedDtypesStepTogether) {
  const std::vector<Tensor> p{ones({3}).set_requires_grad(),
                              ones({2}, {.dtype = DType::float64}).set_requires_grad()};
  SGD optimizer(p, {.learning_rate = 0.25});
  EXPECT_EQ(optimizer.arenas().size(), 2u);
  sum(p[0]).backward();
  sum(p[1]).backward();
  optimizer.step();
  EXPECT_EQ(p[0].to_vector<float>(), (std::vector<float>{0.75f, 0.75f, 0.75f}));
  EXPECT_EQ(p[1].to_vector<double>(), (std::vector<double>{0.75, 0.75}));
}

TEST(OptimizerTest, ClippingScalesTheJointNorm) {
  const auto p = parameters();
  SGD optimizer(p);
  optimizer.zero_grad();
  (sum(p[0] * tensor({3., 0., 0.})) + sum(p[1] * tensor({{0., 4.}}))).backward();
  EXPECT_DOUBLE_EQ(clip_grad_norm(optimizer.arenas(), 1), 5);
  ringrad::testing::expect_close(p[0].grad(), {0.6, 0, 0});
  ringrad::testing::expect_close(p[1].grad(), {0, 0.8});
}

TEST(OptimizerTest, ClippingNeedsNoArena) {
  for (const bool with_optimizer : {false, true}) {
    auto p = parameters();
    p.push_back(ones({2}).set_requires_grad());  // used by no pass
    p.push_back(ones({2}));                      // not trained
    std::optional<SGD> optimizer;
    if (with_optimizer) optimizer.emplace(std::vector<Tensor>(p.begin(), p.begin() + 3));
    if (with_optimizer) optimizer->zero_grad();
    (sum(p[0] * tensor({3., 0., 0.})) + sum(p[1] * tensor({{0., 4.}}))).backward();
    EXPECT_DOUBLE_EQ(clip_grad_norm(p, 1), 5);
    ringrad::testing::expect_close(p[0].grad(), {0.6, 0, 0});
    ringrad::testing::expect_close(p[1].grad(), {0, 0.8});
    EXPECT_FALSE(leaf_of(p[2])->has_gradient());
    EXPECT_THROW(clip_grad_norm(p, 0), ValueError);
  }
}

TEST(OptimizerTest, ClippingScalesEachGradientOnce) {
  const Tensor a = ones({2}).set_requires_grad(), b = ones({2}).set_requires_grad();
  sum(a + b).backward();  // both gradients begin as the same tensor
  EXPECT_DOUBLE_EQ(clip_grad_norm(std::vector{a, b}, 1), 2);
  ringrad::testing::expect_close(a.grad(), {0.5, 0.5});
  ringrad::testing::expect_close(b.grad(), {0.5, 0.5});
}

TEST(OptimizerTest, ClippingLeavesSmallGradientsAlone) {
  const auto p = parameters();
  SGD optimizer(p);
  optimizer.zero_grad();
  sum(p[0] * tensor({3., 0., 4.})).backward();
  EXPECT_DOUBLE_EQ(clip_grad_norm(optimizer.arenas(), 100), 5);
  EXPECT_EQ(p[0].grad().to_vector<float>(), (std::vector<float>{3, 0, 4}));
}

TEST(OptimizerTest, ClippingRefusesGradientsThatAreNotFinite) {
  const auto p = parameters();
  SGD optimizer(p);
  optimizer.zero_grad();
  (sum(p[0]) * INFINITY).backward();
  EXPECT_THROW(clip_grad_norm(optimizer.arenas(), 1), ValueError);
  EXPECT_THROW(clip_grad_norm(optimizer.arenas(), 0), ValueError);
}

TEST(OptimizerTest, ClippingTakesAnyFiniteGradient) {
  const auto clip = [](DType dtype, std::vector<double> gradient, double max_norm) {
    const Tensor p = zeros({2}, {.dtype = dtype}).set_requires_grad();
    SGD optimizer({p});
    p.set_grad(to(tensor(gradient), dtype));
    const double norm = clip_grad_norm(optimizer.arenas(), max_norm);
    return std::pair(norm, p.grad().to_vector<double>());
  };
  const auto expect_clipped = [&](DType dtype, double size, double max_norm, double error) {
    const auto [norm, gradient] = clip(dtype, {3 * size, -4 * size}, max_norm);
    EXPECT_NEAR(norm / size, 5, 5 * error);
    EXPECT_NEAR(gradient[0] / max_norm, 0.6, error);
    EXPECT_NEAR(gradient[1] / max_norm, -0.8, error);
  };
  for (const double max_norm : {1., 1e-6, 1e3}) {
    expect_clipped(DType::float64, 1e200, max_norm, 1e-12);
    expect_clipped(DType::float64, 2e307, max_norm, 1e-12);
    expect_clipped(DType::float32, 8e37, max_norm, 1e-6);
    expect_clipped(DType::bfloat16, 8e37, max_norm, 1e-2);
  }
  // The norm exceeds what a double can hold, and no gradient does.
  const double most = std::numeric_limits<double>::max();
  const auto [norm, gradient] = clip(DType::float64, {most, most}, 1);
  EXPECT_EQ(norm, INFINITY);
  EXPECT_NEAR(gradient[0], std::sqrt(0.5), 1e-12);
  // Too small for their squares.
  EXPECT_NEAR(clip(DType::float64, {3e-200, 4e-200}, 1).first / 5e-200, 1, 1e-12);
  EXPECT_EQ(clip(DType::float32, {3, 4}, INFINITY).first, 5);
  EXPECT_THROW(clip(DType::float64, {NAN, 1}, 1), ValueError);
  EXPECT_THROW(clip(DType::float64, {1e200, INFINITY}, 1), ValueError);
  EXPECT_THROW(clip(DType::float32, {1, 1}, NAN), ValueError);
}

// As of a wrapped model whose head has an optimizer of its own.
TEST(OptimizerTest, SeveralOptimizersShareOneArena) {
  const auto p = parameters();
  const ParameterArena wrapped(p);
  SGD body({p[0]}, {.learning_rate = 1, .momentum = 0.5}), head({p[1]}, {.learning_rate = 0.5});
  EXPECT_EQ(p[1].raw_data(),
            wrapped.values().raw_data() +
                wrapped.slices()[1].offset * static_cast<std::int64_t>(sizeof(float)));
  for (int step = 0; step < 2; ++step) {
    body.zero_grad();
    head.zero_grad();
    (sum(p[0]) + sum(p[1] * 2)).backward();
    wrapped.settle();
    body.step();
    head.step();
  }
  EXPECT_EQ(p[0].to_vector<float>(), (std::vector<float>{-1.5, -0.5, 0.5}));
  EXPECT_EQ(p[1].to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(OptimizerTest, RefusesEveryOptionThatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    const auto expect_refused = [](auto make, const char* name) {
      expect_throws<ValueError>(make, name);
    };
    const auto p = parameters();
    expect_refused([&] { SGD o(p, {.learning_rate = bad}); }, "learning rate");
    expect_refused([&] { SGD o(p, {.momentum = bad}); }, "momentum");
    expect_refused([&] { SGD o(p, {.momentum = 0.5, .dampening = bad}); }, "dampening");
    expect_refused([&] { SGD o(p, {.weight_decay = bad}); }, "weight_decay");
    expect_refused([&] { Adam o(p, {.learning_rate = bad}); }, "learning rate");
    expect_refused([&] { Adam o(p, {.beta1 = bad}); }, "beta1");
    expect_refused([&] { Adam o(p, {.beta2 = bad}); }, "beta2");
    expect_refused([&] { Adam o(p, {.eps = bad}); }, "eps");
    expect_refused([&] { AdamW o(p, {.weight_decay = bad}); }, "weight_decay");
    using Groups = std::vector<ParameterGroup>;
    expect_refused([&] { SGD o(Groups{{.parameters = p, .learning_rate_scale = bad}}); }, "scale");
    expect_refused([&] { SGD o(Groups{{.parameters = p, .weight_decay = bad}}); }, "weight_decay");
    SGD optimizer(p);
    expect_refused([&] { optimizer.set_learning_rate(bad); }, "finite and not negative");
    StateDict state = optimizer.state_dict();
    state.at("learning_rate") = scalar_tensor(bad, {.dtype = DType::float64, .device = Device()});
    expect_refused([&] { optimizer.load_state_dict(state); }, "learning rate");
  }
}

TEST(OptimizerTest, ThrowsOnOptionsOutsideTheirDomain) {
  expect_throws<ValueError>([] { SGD optimizer({}); }, "parameter");
  expect_throws<ValueError>([] { SGD optimizer(parameters(), {.learning_rate = -1}); }, "-1");
  expect_throws<ValueError>([] { SGD optimizer(parameters(), {.nesterov = true}); }, "nesterov");
  expect_throws<ValueError>([] { Adam optimizer(parameters(), {.beta2 = 1}); }, "beta");
  expect_throws<AutogradError>([] { SGD optimizer({ones({2})}); }, "leaves");
  const Tensor p = ones({2}).set_requires_grad();
  expect_throws<ValueError>([&] { SGD optimizer({p, p}); }, "distinct");
}

struct Line : Module {
  Tensor slope = parameter("slope", tensor({2., -1.}));
  Tensor offset = parameter("offset", tensor({0.5}));
  Tensor calls = buffer("calls", zeros({1}));
  Tensor forward(const Tensor& x, Where = Where::current()) override { return slope * x + offset; }
};

TEST(OptimizerTest, AModuleTrainsAlikeOnEveryDeviceItIsMovedTo) {
  const auto train = [](Device device) {
    Line line;
    line.to(device);
    SGD optimizer(line.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
    const Tensor x = to(tensor({{1., 2.}, {3., 4.}}), device);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      mean(square(line(x))).backward();
      optimizer.step();
    }
    for (const auto& [name, tensor] : line.state_dict()) EXPECT_EQ(tensor.device(), device) << name;
    EXPECT_EQ(line.slope.grad().device(), device);
    return to(concatenate({line.slope, line.offset}), Device());
  };
  const Tensor expected = train(Device());
  ringrad::testing::expect_close(train("cpu:1"), expected);
  if (num_cuda_devices() > 0) ringrad::testing::expect_close(train("cuda"), expected);
}

TEST(OptimizerTest, AFrozenParameterKeepsItsValue) {
  const Tensor a = tensor({1., 2.}).set_requires_grad(), b = tensor({3.}).set_requires_grad();
  SGD optimizer({a, b}, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  sum(a * b).backward();
  optimizer.step();
  a.set_requires_grad(false);
  const std::vector<float> at_rest = a.to_vector<float>();
  const float moving = b.item();
  optimizer.step();
  EXPECT_EQ(a.to_vector<float>(), at_rest);
  a.set_requires_grad();
  sum(a * b).backward();
  optimizer.step();
  EXPECT_NE(a.to_vector<float>(), at_rest);
  EXPECT_NE(b.item(), moving);
}

// Weights and biases in turn, as modules have them.
std::vector<Tensor> interleaved() {
  std::vector<Tensor> p;
  for (int i = 0; i < 3; ++i) {
    p.push_back(full({5, 7}, i + 1).set_requires_grad());
    p.push_back(full({7}, -i).set_requires_grad());
  }
  return p;
}

// One optimizer of two groups, and two optimizers. The arena is the optimizer's own, with each
// group in one piece, or one that existed before, in which groups alternate.
TEST(OptimizerTest, AGroupIsSteppedAsAnOptimizerOfItsOwnWouldStepIt) {
  for (const bool has_arena : {false, true}) {
    const auto p = interleaved(), q = interleaved();
    std::optional<ParameterArena> arena;
    if (has_arena) arena.emplace(p);
    AdamW grouped({{.parameters = {p[0], p[2], p[4]}, .weight_decay = 0.5},
                   {.parameters = {p[5], p[3], p[1]}, .learning_rate_scale = 0.25}},
                  {.learning_rate = 0.125, .weight_decay = 0});
    if (has_arena) {
      EXPECT_EQ(grouped.arenas()[0].values().raw_data(), arena->values().raw_data());
    }
    AdamW weights({q[0], q[2], q[4]}, {.learning_rate = 0.125, .weight_decay = 0.5});
    AdamW biases({q[1], q[3], q[5]}, {.learning_rate = 0.125 * 0.25, .weight_decay = 0});
    for (int step = 0; step < 4; ++step) {
      for (const auto& list : {p, q}) {
        Tensor loss = scalar_tensor(0.f);
        for (std::size_t i = step == 1 ? 2 : 0; i < list.size(); ++i)
          loss = loss + sum(square(list[i] - 3));
        for (const Tensor& parameter : list) clear_gradient(parameter);
        loss.backward();
      }
      const double rate = 0.125 / (1 + step);
      grouped.set_learning_rate(rate);
      weights.set_learning_rate(rate);
      biases.set_learning_rate(rate * 0.25);
      grouped.step();
      weights.step();
      biases.step();
      for (std::size_t i = 0; i < p.size(); ++i) ringrad::testing::expect_same_bits(p[i], q[i]);
    }
    const StateDict state = grouped.state_dict();
    EXPECT_EQ(state.at("3.first_moment").shape(), Shape({7}));  // numbered through the groups
    ringrad::testing::expect_same_bits(state.at("3.first_moment"),
                                       biases.state_dict().at("2.first_moment"));
    EXPECT_EQ(state.at("5.steps").item<std::int64_t>(), 3);
  }
}

TEST(OptimizerTest, DecayGroupsDecayMatricesOnly) {
  struct Net : Module {
    Tensor weight = parameter("weight", ones({2, 3}));
    Tensor bias = parameter("bias", ones({2}));
    Tensor filter = parameter("filter", ones({2, 3, 1, 1}));
    Tensor frozen = parameter("frozen", ones({2, 2}));
  } net;
  net.frozen.set_requires_grad(false);
  const auto groups = decay_groups(net, 0.5);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].parameters.size(), 2u);
  EXPECT_EQ(groups[1].parameters.size(), 1u);
  SGD optimizer(groups, {.learning_rate = 1, .weight_decay = 7});
  for (const Tensor& parameter : optimizer.parameters())
    parameter.set_grad(zeros(parameter.shape()));
  optimizer.step();
  EXPECT_EQ(net.weight.to_vector<float>()[0], 0.5f);
  EXPECT_EQ(net.filter.to_vector<float>()[0], 0.5f);
  EXPECT_EQ(net.bias.to_vector<float>()[0], 1);
  net.weight.set_requires_grad(false);
  net.filter.set_requires_grad(false);
  EXPECT_EQ(decay_groups(net, 0.5).size(), 1u);
}

TEST(OptimizerTest, GroupsRefuseWhatMakesNoSense) {
  const auto p = parameters();
  using Groups = std::vector<ParameterGroup>;
  expect_throws<ValueError>([&] { SGD optimizer(Groups{}); }, "at least one parameter");
  expect_throws<ValueError>(
      [&] {
        SGD optimizer({{.parameters = p}, {.parameters = {p[1]}}});
      },
      "distinct");
  expect_throws<ValueError>([&] { SGD optimizer({{.parameters = p, .learning_rate_scale = -1}}); },
                            "-1");
  expect_throws<ValueError>([&] { SGD optimizer({{.parameters = p, .weight_decay = -2}}); }, "-2");
}

// A state from before each parameter's steps were counted: all have taken the optimizer's number of
// steps.
TEST(OptimizerTest, LoadsAStateWithoutTheStepsOfParameters) {
  const auto steps_of = [](const Optimizer& optimizer, const char* name) {
    return optimizer.state_dict().at(name).item<std::int64_t>();
  };
  const auto old_state = [](const Optimizer& optimizer) {
    StateDict state = optimizer.state_dict();
    state.at("step") = scalar_tensor(7, {.dtype = DType::int64, .device = Device()});
    std::erase_if(state, [](const auto& entry) { return entry.first.ends_with(".steps"); });
    return state;
  };
  Adam optimizer(parameters(), {});
  StateDict state = old_state(optimizer);
  optimizer.load_state_dict(state);
  EXPECT_EQ(steps_of(optimizer, "0.steps"), 7);
  EXPECT_EQ(steps_of(optimizer, "1.steps"), 7);
  state.emplace("0.steps", state.at("step"));
  expect_throws<ValueError>([&] { optimizer.load_state_dict(state); }, "missing: \"1.steps\"");
}

}  // namespace
}  // namespace ringrad::nn
