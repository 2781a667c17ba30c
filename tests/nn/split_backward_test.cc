// Whole networks: backward passes in halves must give the same bits as whole ones.

#include "ringrad/autograd/split_backward.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/index/embedding.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/nn/arena.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/residual.h"
#include "ringrad/nn/layers/row_norm.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_same_bits;
using ringrad::testing::Random;

using Tensors = std::vector<Tensor>;

// A step of two micro-batches.
struct Step {
  Tensors xs, grad_outputs;

  Step(Module& net, const Shape& shape) {
    Random random(11);
    for (int i = 0; i < 2; ++i) {
      xs.push_back(random.tensor(shape).set_requires_grad());
      grad_outputs.push_back(random.tensor(net.forward(xs.back()).shape()));
    }
  }

  // Both return the gradients of the inputs.
  Tensors whole(Module& net) const {
    Tensors of_inputs;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      net.forward(xs[i]).backward(grad_outputs[i]);
      of_inputs.push_back(xs[i].grad());
      xs[i].set_grad({});
    }
    return of_inputs;
  }

  template <class Between>
  Tensors in_halves(Module& net, Between between) const {
    Tensors of_inputs;
    std::vector<WeightGradients> rest;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Tensor y = net.forward(xs[i]);
      auto [grads, weights] = backward_inputs({&y, 1}, {&grad_outputs[i], 1}, {&xs[i], 1});
      of_inputs.push_back(grads[0]);
      rest.push_back(std::move(weights));
    }
    between();
    for (WeightGradients& weights : rest) weights.accumulate();
    return of_inputs;
  }
};

// With cuDNN the halves differ in the last place (docs/reproducibility.md).
void expect_same_bits_each(const Tensors& actual, const Tensors& expected) {
  const bool uses_cudnn =
      default_device().is_cuda() && kernel_backend("conv2d") == KernelBackend::vendor;
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    uses_cudnn ? testing::expect_close(actual[i], expected[i])
               : expect_same_bits(actual[i], expected[i]);
}

Tensors gradients_of(const Module& net) {
  Tensors copies;
  for (const Tensor& parameter : net.parameters()) copies.push_back(clone(parameter.grad()));
  return copies;
}

void expect_same_gradients(Module& net, const Shape& shape) {
  const Step step(net, shape);
  const Tensors of_inputs = step.whole(net), of_weights = gradients_of(net);
  const auto nothing_has_arrived = [&] {
    for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
  };
  for (const Tensor& parameter : net.parameters()) parameter.set_grad({});
  expect_same_bits_each(step.in_halves(net, nothing_has_arrived), of_inputs);
  expect_same_bits_each(gradients_of(net), of_weights);
}

// The same with gradients that are written into an arena, over the old values.
void expect_same_gradients_in_arena(Module& net, const Shape& shape) {
  const Step step(net, shape);
  const ParameterArena arena(net.parameters());
  const auto stale = [&] {
    fill_(arena.gradients(), 7);
    arena.clear_gradients();
  };
  stale();
  const Tensors of_inputs = step.whole(net), of_weights = gradients_of(net);
  stale();
  const Tensor before = clone(arena.gradients());
  const auto nothing_has_arrived = [&] { expect_same_bits(arena.gradients(), before); };
  expect_same_bits_each(step.in_halves(net, nothing_has_arrived), of_inputs);
  arena.settle();
  expect_same_bits_each(gradients_of(net), of_weights);
}

constexpr ImageTask kSmall{.channels = 2, .height = 8, .width = 8, .classes = 4};
const Shape kImages{3, 2, 8, 8};

TEST(SplitBackwardOfNetworksTest, FullyConnectedNetworksGiveTheSameBits) {
  Sequential net = mlp(kSmall);
  expect_same_gradients(net, kImages);
  expect_same_gradients_in_arena(net, kImages);
}

TEST(SplitBackwardOfNetworksTest, ConvolutionalNetworksGiveTheSameBits) {
  Sequential net = convnet(kSmall);
  expect_same_gradients(net, kImages);
  expect_same_gradients_in_arena(net, kImages);
}

TEST(SplitBackwardOfNetworksTest, ResidualNetworksGiveTheSameBits) {
  Sequential net = resnet20(kSmall);
  expect_same_gradients(net, kImages);
}

TEST(SplitBackwardOfNetworksTest, ResidualBlocksGiveTheSameBitsInTrainingAndEvaluation) {
  Sequential net(Conv2d(2, 4), ResidualBlock(4, 4), Bottleneck(4, 2, 2));
  for (const bool training : {true, false}) {
    net.train(training);
    expect_same_gradients(net, kImages);
    net.zero_grad();
    for (const Tensor& parameter : net.parameters()) parameter.set_grad({});
  }
}

TEST(SplitBackwardOfNetworksTest, FrozenParametersStayOut) {
  Sequential net(Linear(6, 8), LayerNorm(8), ReLU(), Linear(8, 3));
  net.parameters()[1].set_requires_grad(false);
  net.parameters()[2].set_requires_grad(false);
  const Step step(net, {4, 6});
  step.whole(net);
  const Tensor expected = clone(net.parameters()[0].grad());
  net.parameters()[0].set_grad({});
  step.in_halves(net, [] {});
  expect_same_bits(net.parameters()[0].grad(), expected);
  EXPECT_FALSE(net.parameters()[1].grad().defined());
}

// The table of vectors is used three times: looked up twice, and as the last layer's weight.
struct TiedTable : Module {
  static constexpr std::int64_t kVocabulary = 9, kFeatures = 6;
  Tensor table = parameter("table", Random(3).tensor({kVocabulary, kFeatures}));
  LayerNorm& norm = child("norm", LayerNorm(kFeatures));
  Linear& inner = child("inner", Linear(kFeatures, kFeatures));
  Tensor tokens = ringrad::to(tensor({1., 4., 4., 8.}), DType::int64);

  Tensor forward(const Tensor& x, Where) override {
    const Tensor hidden = norm(x + embedding(table, tokens));
    const Tensor mixed = hidden + inner.forward_relu(hidden) * embedding(table, tokens);
    return linear(norm(mixed), table, {});
  }
};

TEST(SplitBackwardOfNetworksTest, NetworksThatUseWeightsInSeveralPlacesGiveTheSameBits) {
  TiedTable net;
  expect_same_gradients(net, {5, 4, TiedTable::kFeatures});
  expect_same_gradients_in_arena(net, {5, 4, TiedTable::kFeatures});
}

}  // namespace
}  // namespace ringrad::nn
