// A training step that is repeated has the same bits: no operator depends on timing.

#include <functional>
#include <vector>

#include "ringrad/autograd/attention/attention.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/row_norm.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::Random;
using Function = std::function<Tensor(const std::vector<Tensor>& inputs)>;

// The result and the gradients of inputs and parameters.
std::vector<Tensor> outcome(const Function& f, const std::vector<Tensor>& inputs,
                            const std::vector<Tensor>& parameters, const Tensor& gradient) {
  std::vector<Tensor> tensors = parameters;
  for (const Tensor& x : inputs) tensors.push_back(x.detach().set_requires_grad());
  for (const Tensor& x : tensors) x.set_grad({});
  const Tensor y = f({tensors.begin() + std::ssize(parameters), tensors.end()});
  y.backward(gradient);
  std::vector<Tensor> all = {y.detach()};
  for (const Tensor& x : tensors) all.push_back(x.grad());
  return all;
}

void expect_repeats(const Function& f, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& parameters = {}) {
  const Tensor y = f(inputs);
  const Tensor gradient = Random(2).tensor(y.shape(), y.dtype());
  const std::vector<Tensor> first = outcome(f, inputs, parameters, gradient);
  for (int repeat = 0; repeat < 5; ++repeat) {
    const std::vector<Tensor> again = outcome(f, inputs, parameters, gradient);
    for (std::size_t i = 0; i < first.size(); ++i) {
      SCOPED_TRACE(i);
      expect_same_bits(again[i], first[i]);
    }
  }
}

void expect_repeats(nn::Sequential net, const Shape& shape) {
  const Function f = [&](const std::vector<Tensor>& in) { return net(in[0]); };
  expect_repeats(f, {Random(1).tensor(shape)}, net.parameters());
}

TEST(RepeatTest, LinearLayers) {
  expect_repeats(nn::Sequential(nn::Linear(96, 160), nn::ReLU()), {64, 96});
}

TEST(RepeatTest, Convolutions) {
  expect_repeats(nn::Sequential(nn::Conv2d(16, 32, 3, {.padding = 1})), {8, 16, 14, 14});
}

TEST(RepeatTest, BatchNorms) {
  expect_repeats(nn::Sequential(nn::BatchNorm2d(32), nn::ReLU()), {16, 32, 14, 14});
}

TEST(RepeatTest, LayerNorms) { expect_repeats(nn::Sequential(nn::LayerNorm(96)), {64, 96}); }

TEST(RepeatTest, Attention) {
  Random random(3);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(random.tensor({2, 4, 128, 64}, DType::bfloat16));
  expect_repeats(
      [](const std::vector<Tensor>& in) {
        return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
      },
      inputs);
}

}  // namespace
}  // namespace ringrad
