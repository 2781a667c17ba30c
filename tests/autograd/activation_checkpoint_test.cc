#include "ringrad/autograd/activation_checkpoint.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"

namespace ringrad {
namespace {

TEST(ActivationCheckpointTest, GivesTheGradientsOfTheSegmentItself) {
  const Tensor x = tensor({0.5f, -1.f}).set_requires_grad();
  const Tensor w = tensor({2.f, 3.f}).set_requires_grad();
  const auto segment = [&](const std::vector<Tensor>& inputs) {
    return tanh(exp(inputs[0]) * w) * w;
  };
  sum(segment({x})).backward();
  const auto x_grad = x.grad().to_vector<float>(), w_grad = w.grad().to_vector<float>();
  x.set_grad({});
  w.set_grad({});
  sum(activation_checkpoint(segment, {x})).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), x_grad);
  EXPECT_EQ(w.grad().to_vector<float>(), w_grad);
}

// w is a leaf of the outer pass and of the pass inside the checkpoint: neither may lose the other's
// part.
TEST(ActivationCheckpointTest, LeafUsedInsideAndOutsideReceivesBothParts) {
  const Tensor w = tensor({2.f}).set_requires_grad();
  const Tensor inside =
      activation_checkpoint([&](const std::vector<Tensor>& v) { return v[0] * w; }, {w * 5});
  (inside + w * 100).backward();
  EXPECT_EQ(w.grad().item(), 2 * 5 * 2 + 100);
}

TEST(ActivationCheckpointTest, RunsTheSegmentAgainInBackwardOnly) {
  const Tensor x = tensor({1.f}).set_requires_grad();
  int calls = 0;
  const Tensor y = activation_checkpoint(
      [&](const std::vector<Tensor>& v) {
        ++calls;
        return exp(v[0]);
      },
      {x});
  EXPECT_EQ(calls, 1);
  y.backward();
  EXPECT_EQ(calls, 2);
}

TEST(ActivationCheckpointTest, RandomNumbersAreTheSameInBothRuns) {
  manual_seed(7);
  const Tensor x = ones({64}).set_requires_grad();
  std::vector<std::vector<float>> draws;
  const Tensor y = activation_checkpoint(
      [&](const std::vector<Tensor>& v) {
        const Tensor noise = rand({64});
        draws.push_back(noise.to_vector<float>());
        return v[0] * noise;
      },
      {x});
  const float next = rand({1}).item();
  sum(y).backward();
  ASSERT_EQ(draws.size(), 2u);
  EXPECT_EQ(draws[0], draws[1]);
  EXPECT_EQ(x.grad().to_vector<float>(), draws[0]);
  manual_seed(7);
  rand({64});
  EXPECT_EQ(rand({1}).item(), next) << "backward must not disturb the stream";
}

TEST(ActivationCheckpointTest, CheckpointsNest) {
  const Tensor x = tensor({0.3f}).set_requires_grad();
  const auto inner = [](const std::vector<Tensor>& v) { return exp(v[0]); };
  const auto outer = [&](const std::vector<Tensor>& v) {
    return activation_checkpoint(inner, {square(v[0])}) * v[0];
  };
  activation_checkpoint(outer, {x}).backward();
  const Tensor reference = tensor({0.3f}).set_requires_grad();
  (exp(square(reference)) * reference).backward();
  EXPECT_FLOAT_EQ(x.grad().item(), reference.grad().item());
}

TEST(ActivationCheckpointTest, RefusesToBeRecordedTwice) {
  const Tensor x = tensor({1.f}).set_requires_grad();
  const Tensor y =
      activation_checkpoint([](const std::vector<Tensor>& v) { return exp(v[0]); }, {x});
  EXPECT_THROW(y.backward({}, {.create_graph = true}), AutogradError);
}

TEST(ActivationCheckpointTest, RefusesGradWhichMustLeaveLeavesAlone) {
  const Tensor x = tensor({1.f}).set_requires_grad(), w = tensor({2.f}).set_requires_grad();
  const Tensor y =
      activation_checkpoint([&](const std::vector<Tensor>& v) { return v[0] * w; }, {x});
  EXPECT_THROW(grad(y, w), AutogradError);
  EXPECT_FALSE(w.grad().defined());
}

TEST(ActivationCheckpointTest, AFailureLeavesTheStreamOfRandomNumbersAsItWas) {
  const Tensor x = tensor({1.f}).set_requires_grad();
  int calls = 0;
  manual_seed(7);
  const Tensor y = activation_checkpoint(
      [&](const std::vector<Tensor>& v) {
        if (++calls == 2) throw ValueError("told to fail", Where::current());
        return v[0] * rand({1});
      },
      {x});
  Generator before = default_generator();
  EXPECT_THROW(y.backward(), ValueError);
  EXPECT_EQ(rand({1}).item(), rand({1}, {}, before).item());
}

}  // namespace
}  // namespace ringrad
