#include "ringrad/autograd/split_backward.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/row_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/base/allocator.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::host_device;
using testing::Random;

using Tensors = std::vector<Tensor>;

Tensor leaf(float value) { return tensor({value}).set_requires_grad(); }

SplitBackward first_half(const Tensor& y, const Tensors& inputs) {
  return backward_inputs({&y, 1}, {}, inputs);
}

void clear(const Tensors& leaves) {
  for (const Tensor& x : leaves) x.set_grad({});
}

// forward() computes from leaves only. Its backward pass must give the same bits whole and in
// halves.
void expect_same_gradients(const std::function<Tensors()>& forward, const Tensors& inputs,
                           const Tensors& weights) {
  Random random(5);
  Tensors whole = forward(), grad_outputs, grad_inputs, grad_weights;
  for (const Tensor& y : whole) grad_outputs.push_back(random.tensor(y.shape(), y.dtype()));
  backward(whole, grad_outputs);
  for (const Tensor& x : inputs) grad_inputs.push_back(x.grad());
  for (const Tensor& w : weights) grad_weights.push_back(w.grad());
  clear(inputs);
  clear(weights);

  auto [grads, rest] = backward_inputs(forward(), grad_outputs, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) expect_same_bits(grads[i], grad_inputs[i]);
  for (const Tensor& w : weights) EXPECT_FALSE(w.grad().defined());
  rest.accumulate();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_EQ(weights[i].grad().defined(), grad_weights[i].defined());
    if (grad_weights[i].defined()) expect_same_bits(weights[i].grad(), grad_weights[i]);
  }
  for (const Tensor& x : inputs) EXPECT_FALSE(x.grad().defined());
  clear(weights);
}

// -- What is computed, and when -------------------------------------------------------------------

// a * b; logs which of its inputs' gradients are requested.
Tensor logged_mul(const Tensor& a, const Tensor& b, std::vector<std::string>& log) {
  Tensor y = a.detach() * b.detach();
  record("logged_mul", Where::current(), y, {&a, &b},
         [a = save(a), b = save(b), &log](BackwardContext& context) {
           log.push_back(concat(context.needs(0), context.needs(1)));
           if (context.needs(0)) context.set(0, context.grad_output() * b.get());
           if (context.needs(1)) context.set(1, context.grad_output() * a.get());
         });
  return y;
}

TEST(SplitBackwardTest, FirstHalfAsksForInputsOnlyAndSecondForWeightsOnly) {
  const Tensor x = leaf(2), v = leaf(3), w = leaf(5);
  std::vector<std::string> log;
  auto [grads, weights] = first_half(logged_mul(logged_mul(x, v, log), w, log), {x});
  EXPECT_EQ(log, (std::vector<std::string>{"10", "10"}));
  EXPECT_EQ(grads[0].item(), 15);
  for (const Tensor& leaf : {x, v, w}) EXPECT_FALSE(leaf.grad().defined());
  log.clear();
  weights.accumulate();
  EXPECT_EQ(log, (std::vector<std::string>{"01", "01"}));
  EXPECT_EQ(v.grad().item(), 10);
  EXPECT_EQ(w.grad().item(), 6);
  EXPECT_FALSE(x.grad().defined());
}

TEST(SplitBackwardTest, WhatLeadsToWeightsOnlyRunsInTheSecondHalfAlone) {
  const Tensor x = leaf(2), v = leaf(3), w = leaf(5);
  std::vector<std::string> log;
  auto [grads, weights] = first_half(x * logged_mul(v, w, log), {x});
  EXPECT_TRUE(log.empty());
  weights.accumulate();
  EXPECT_EQ(log, (std::vector<std::string>{"11"}));
  EXPECT_EQ(v.grad().item(), 10);
}

TEST(SplitBackwardTest, WhatLeadsToInputsOnlyIsDoneInTheFirstHalf) {
  const Tensor x = leaf(2), z = leaf(3);
  std::vector<std::string> log;
  const auto [grads, weights] = first_half(logged_mul(x, z, log), {x, z});
  EXPECT_EQ(log, (std::vector<std::string>{"11"}));
  EXPECT_EQ(grads[1].item(), 2);
  EXPECT_EQ(weights.num_roots(), 0u);
}

// Like layer norm: one kernel computes all gradients.
TEST(SplitBackwardTest, AFunctionThatSetsAllGradientsAtOnceIsNotCalledAgain) {
  const Tensor x = leaf(2), w = leaf(5);
  int calls = 0;
  Tensor y = tensor({10.f});
  record("eager", Where::current(), y, {&x, &w},
         [&, x = save(x), w = save(w)](BackwardContext& context) {
           ++calls;
           context.set(0, context.grad_output() * w.get());
           context.set(1, context.grad_output() * x.get());
         });
  auto [grads, weights] = first_half(y, {x});
  EXPECT_FALSE(w.grad().defined());
  weights.accumulate();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(grads[0].item(), 5);
  EXPECT_EQ(w.grad().item(), 2);
}

// -- Agreement with backward() --------------------------------------------------------------------

// Sums of three or more terms of unlike size: a different order would give different bits.
TEST(SplitBackwardTest, SharedWeightsAreSummedInTheSameOrder) {
  Random random(1);
  const Tensor x = random.tensor({64}).set_requires_grad(), w = random.tensor({64});
  w.set_requires_grad();
  const auto forward = [&] {
    const Tensor scale = exp(w * 3);
    Tensor y = x;
    for (int i = 0; i < 5; ++i) y = tanh(y * scale + w) * (scale + i) + x * 0.37f;
    return Tensors{y};
  };
  expect_same_gradients(forward, {x}, {w});
}

TEST(SplitBackwardTest, SeveralOutputsAndInputsGiveTheSameBits) {
  Random random(2);
  const auto make = [&](const Shape& shape) { return random.tensor(shape).set_requires_grad(); };
  const Tensor x = make({3, 4}), z = make({3, 4}), w = make({4, 4}), b = make({4}),
               unused = make({2});
  const auto forward = [&] {
    const Tensor of_weights = linear(w, w, b);  // a root that leads to no input, below another one
    const Tensor hidden = linear(x, of_weights, b, true);
    const Tensor joined = concatenate({hidden, z * b}, 0);
    return Tensors{layer_norm(joined, b, b), of_weights, chunk(joined, 2)[0]};
  };
  expect_same_gradients(forward, {x, z}, {w, b, unused});
}

TEST(SplitBackwardTest, AFunctionWithTwoOutputsKeepsBothGradients) {
  const Tensor x = leaf(5), w = leaf(7);
  for (const bool both : {false, true}) {
    const Tensors y{tensor({5.f}), tensor({7.f})}, leaves{x, w};
    record("swap", Where::current(), y, leaves, [both](BackwardContext& context) {
      EXPECT_EQ(context.grad_output(1).defined(), both);
      if (context.needs(0)) context.set(0, context.grad_output(0));
      if (context.needs(1)) context.set(1, both ? context.grad_output(1) : Tensor());
    });
    auto [grads, weights] = first_half(both ? y[0] * 2 + y[1] * 3 : y[0] * 2, {x});
    weights.accumulate();
    EXPECT_EQ(grads[0].item(), 2);
    EXPECT_EQ(w.grad().defined(), both);
  }
  EXPECT_EQ(w.grad().item(), 3);
}

TEST(SplitBackwardTest, BelowAnIntermediateInputTheSecondHalfGoesOn) {
  const Tensor x = leaf(2), w = leaf(3);
  const Tensor hidden = x * w;
  auto [grads, weights] = first_half(square(hidden), {hidden});
  EXPECT_EQ(grads[0].item(), 12);
  EXPECT_FALSE(x.grad().defined());
  weights.accumulate();
  EXPECT_EQ(x.grad().item(), 36);
  EXPECT_EQ(w.grad().item(), 24);
}

TEST(SplitBackwardTest, OneInputMayLieBelowAnother) {
  const Tensor x = leaf(2), w = leaf(3);
  const Tensor hidden = x * w;
  auto [grads, weights] = first_half(square(hidden), {hidden, x, hidden});
  EXPECT_EQ(grads[0].item(), 12);
  EXPECT_EQ(grads[1].item(), 36);
  EXPECT_EQ(grads[2].item(), 12);
  weights.accumulate();
  EXPECT_EQ(w.grad().item(), 24);
  EXPECT_FALSE(x.grad().defined());
}

TEST(SplitBackwardTest, AnInputThatIsNotUsedHasNoGradient) {
  const Tensor x = leaf(2), w = leaf(3);
  auto [grads, weights] = first_half(w * 2, {x});
  EXPECT_FALSE(grads[0].defined());
  weights.accumulate();
  EXPECT_EQ(w.grad().item(), 2);
}

TEST(SplitBackwardTest, WithoutInputsAllIsLeftToTheSecondHalf) {
  const Tensor w = leaf(3);
  std::vector<std::string> log;
  auto [grads, weights] = first_half(logged_mul(w, w, log), {});
  EXPECT_TRUE(log.empty());
  weights.accumulate();
  EXPECT_EQ(w.grad().item(), 6);
}

TEST(SplitBackwardTest, AParameterAmongTheInputsIsReturnedAndNotAccumulated) {
  const Tensor x = leaf(2), w = leaf(3), b = leaf(1);
  auto [grads, weights] = first_half(x * w + w * b, {x, w});
  weights.accumulate();
  EXPECT_EQ(grads[1].item(), 3);
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(b.grad().item(), 3);
}

TEST(SplitBackwardTest, SecondHalvesOfManyMicroBatchesMayWaitForEachOther) {
  const Tensor x = leaf(2), w = leaf(3);
  std::vector<WeightGradients> rest;
  for (int i = 1; i <= 4; ++i) rest.push_back(first_half(x * i * w, {x}).weights);
  for (WeightGradients& weights : rest) weights.accumulate();
  EXPECT_EQ(w.grad().item(), 2 * (1 + 2 + 3 + 4));
}

// -- Hooks ----------------------------------------------------------------------------------------

TEST(SplitBackwardTest, AHookRunsOnceAndItsGradientCountsInBothHalves) {
  const Tensor x = leaf(2), w = leaf(3);
  const Tensor y = x * w, of_weights = w * 1;
  int above = 0, below = 0;
  register_hook(y, [&](const Tensor& gradient) { return ++above, gradient * 10; });
  register_hook(x, [](const Tensor& gradient) { return gradient * 2; });
  register_hook(of_weights, [&](const Tensor& gradient) { return ++below, gradient * 100; });
  auto [grads, weights] = first_half(y + of_weights, {x});
  EXPECT_EQ(above, 1);
  EXPECT_EQ(below, 0);
  weights.accumulate();
  EXPECT_EQ(above, 1);
  EXPECT_EQ(below, 1);
  EXPECT_EQ(grads[0].item(), 60);
  EXPECT_EQ(w.grad().item(), 20 + 100);
}

TEST(SplitBackwardTest, LeavesAndTheEndOfBackwardBelongToTheSecondHalf) {
  const Tensor x = leaf(2), first = leaf(3), last = leaf(5);
  std::vector<std::string> events;
  const auto log = [&](const char* what) {
    return [&, what](const Tensor&) { events.push_back(what); };
  };
  register_completed_hook(x, log("x"));
  register_completed_hook(first, [&](const Tensor&) {
    events.push_back("first");
    at_end_of_backward([&] { events.push_back("end"); });
  });
  register_completed_hook(last, log("last"));
  auto [grads, weights] = first_half(square(x * first) * last, {x});
  EXPECT_TRUE(events.empty());
  weights.accumulate();
  EXPECT_EQ(events, (std::vector<std::string>{"last", "first", "end"}));
}

// -- Memory and depth -----------------------------------------------------------------------------

TEST(SplitBackwardTest, BothHalvesTogetherFreeTheGraph) {
  const Tensor x = leaf(2), w = leaf(3);
  w.set_grad(zeros({1}));
  x.set_grad({});
  const std::int64_t before = allocator_stats().allocated_bytes;
  for (const bool accumulates : {true, false}) {
    auto [grads, weights] = first_half(sum(square(exp(x * w) * w)), {x});
    EXPECT_GT(allocator_stats().allocated_bytes, before);
    if (accumulates) weights.accumulate();
    grads.clear();
    weights = {};
    EXPECT_EQ(allocator_stats().allocated_bytes, before);
  }
}

TEST(SplitBackwardTest, FirstHalfFreesWhatNoWeightNeeds) {
  constexpr std::int64_t kCount = 10'000;
  const Options host{.device = host_device()};
  const Tensor x = ones({1, kCount}, host).set_requires_grad();
  const Tensor w = ones({kCount}, host).set_requires_grad(), b = ones({kCount}, host);
  b.set_requires_grad();
  const std::int64_t before = allocator_stats().allocated_bytes;
  Tensor y = sum(square(exp(layer_norm(exp(exp(x)), w, b))));
  EXPECT_GT(allocator_stats().allocated_bytes, before + 3 * 4 * kCount);
  auto [grads, weights] = first_half(y, {x});
  grads.clear();
  y = {};
  EXPECT_LT(allocator_stats().allocated_bytes, before + 3 * 4 * kCount);  // those of w and b
}

// Sanitizers are slow, and stacks overflow sooner with them.
#ifdef RINGRAD_SANITIZE
constexpr int kManyOperations = 100'000;
#else
constexpr int kManyOperations = 1'000'000;
#endif

TEST(SplitBackwardTest, ManyOperationsNeedNoRecursion) {
  const Tensor x = ones({1}, {.device = host_device()}).set_requires_grad();
  const Tensor w = ones({1}, {.device = host_device()}).set_requires_grad();
  for (const bool accumulates : {true, false}) {
    Tensor y = x;
    for (int i = 0; i < kManyOperations; ++i) y = y + w;
    auto [grads, weights] = first_half(y, {x});
    EXPECT_EQ(grads[0].item(), 1);
    if (accumulates) weights.accumulate();
  }
  EXPECT_EQ(w.grad().item(), kManyOperations);
}

}  // namespace
}  // namespace ringrad
