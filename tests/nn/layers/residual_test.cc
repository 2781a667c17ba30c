#include "ringrad/nn/layers/residual.h"

#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::contiguous_copy;
using ringrad::testing::expect_close;
using ringrad::testing::Random;

struct Layer {
  std::string number;
  ringrad::Conv2dOptions options;
};

// The block's function composed of single operators, with its parameters by name.
Tensor composed(const Module& block, const Tensor& x, const std::vector<Layer>& layers,
                std::int64_t stride) {
  StateDict state = block.state_dict();
  const auto normalized = [&](const Tensor& in, const std::string& conv, const std::string& norm,
                              const ringrad::Conv2dOptions& options) {
    return batch_norm(conv2d(in, state.at(conv + ".weight"), {}, options),
                      state.at(norm + ".weight"), state.at(norm + ".bias"), {}, {});
  };
  Tensor y = x;
  for (const Layer& layer : layers) {
    y = normalized(y, "conv" + layer.number, "bn" + layer.number, layer.options);
    if (&layer != &layers.back()) y = relu(y);
  }
  const bool projected = state.contains("downsample.0.weight");
  return relu(y + (projected
                       ? normalized(x, "downsample.0", "downsample.1", {.stride = {stride, stride}})
                       : x));
}

void expect_composition(Module& block, const Shape& shape, const std::vector<Layer>& layers,
                        std::int64_t stride) {
  Random random(1);
  const Tensor x = random.tensor(shape), same = contiguous_copy(x);
  x.set_requires_grad();
  same.set_requires_grad();
  const Tensor y = block(x), expected = composed(block, same, layers, stride);
  expect_close(y, expected, 256);
  const Tensor weights = random.tensor(y.shape());
  y.backward(weights);
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : block.parameters()) gradients.push_back(parameter.grad());
  block.zero_grad();
  expected.backward(weights);
  expect_close(x.grad(), same.grad(), 4096);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    expect_close(gradients[i], block.parameters()[i].grad(), 4096);
}

TEST(ResidualBlockTest, IsTwoConvolutionsBesideTheIdentity) {
  ResidualBlock block(4, 4);
  expect_composition(block, {2, 4, 5, 6}, {{"1", {.padding = {1, 1}}}, {"2", {.padding = {1, 1}}}},
                     1);
}

TEST(ResidualBlockTest, ProjectsWhereTheShapeChanges) {
  ResidualBlock block(3, 6, 2);
  expect_composition(block, {2, 3, 7, 6},
                     {{"1", {.stride = {2, 2}, .padding = {1, 1}}}, {"2", {.padding = {1, 1}}}}, 2);
}

TEST(BottleneckTest, IsThreeConvolutionsBesideTheIdentity) {
  Bottleneck block(12, 3);
  expect_composition(block, {2, 12, 5, 6}, {{"1", {}}, {"2", {.padding = {1, 1}}}, {"3", {}}}, 1);
}

TEST(BottleneckTest, ProjectsWhereTheShapeChanges) {
  Bottleneck wider(4, 2), smaller(8, 4, 2);
  expect_composition(wider, {2, 4, 5, 6}, {{"1", {}}, {"2", {.padding = {1, 1}}}, {"3", {}}}, 1);
  expect_composition(smaller, {2, 8, 7, 6},
                     {{"1", {}}, {"2", {.stride = {2, 2}, .padding = {1, 1}}}, {"3", {}}}, 2);
}

}  // namespace
}  // namespace ringrad::nn
