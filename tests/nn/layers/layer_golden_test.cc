// Every layer against PyTorch: output, gradients of the input and the parameters, and the buffers
// after the call.

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/embedding.h"
#include "ringrad/nn/layers/group_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/pool.h"
#include "ringrad/nn/layers/row_norm.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::GoldenCase;

// Convolutions and normalisations sum some dozens of float32 terms, in a different order from
// PyTorch's.
constexpr double kSlack = 64;

class LayerGoldenTest : public ::testing::Test {
 protected:
  void check(const std::string& name, Module&& layer, bool training = true) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(cases_.contains(name));
    const GoldenCase& golden = cases_.at(name);
    layer.train(training);
    StateDict state;
    for (const auto& [key, tensor] : layer.state_dict()) state[key] = golden.at("before." + key);
    layer.load_state_dict(state);

    const Tensor x = clone(golden.at("input"));
    if (is_floating(x.dtype())) x.set_requires_grad();
    const Tensor y = layer(x);
    sum(y * golden.at("output_weights")).backward();

    expect_close(y, golden.at("output"), kSlack);
    if (x.requires_grad()) expect_close(x.grad(), golden.at("grad.input"), kSlack);
    for (const auto& [key, parameter] : layer.named_parameters())
      expect_close(parameter.grad(), golden.at("grad." + key), kSlack);
    for (const auto& [key, buffer] : layer.named_buffers())
      expect_close(buffer, golden.at("after." + key), kSlack);
  }

  const std::map<std::string, GoldenCase> cases_ = ringrad::testing::read_golden("layers");
};

TEST_F(LayerGoldenTest, LinearMatchesPyTorch) { check("Linear", Linear(4, 3)); }

TEST_F(LayerGoldenTest, ConvolutionsMatchPyTorch) {
  check("Conv2d", Conv2d(3, 4, {.padding = 1}));
  check("Conv2d stride 2 groups 3 dilation 2",
        Conv2d(3, 6, {.stride = 2, .padding = 2, .dilation = 2, .groups = 3, .bias = false}));
  check("Conv1d stride 2 padding 1 dilation 2 groups 2",
        Conv1d(4, 6, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2}));
  check("Conv3d stride 2 padding 1 groups 2",
        Conv3d(4, 6, {.stride = 2, .padding = 1, .groups = 2}));
}

TEST_F(LayerGoldenTest, TransposedConvolutionsMatchPyTorch) {
  check("ConvTranspose2d", ConvTranspose2d(3, 2));
  check("ConvTranspose2d stride 2 padding 1 output_padding 1 groups 3 dilation 2",
        ConvTranspose2d(3, 6,
                        {.stride = 2,
                         .padding = 1,
                         .output_padding = 1,
                         .dilation = 2,
                         .groups = 3,
                         .bias = false}));
  check("ConvTranspose1d stride 3 padding 1 output_padding 2",
        ConvTranspose1d(4, 3, 4, {.stride = 3, .padding = 1, .output_padding = 2}));
  check("ConvTranspose3d stride 2 output_padding 1",
        ConvTranspose3d(4, 2, 2, {.stride = 2, .output_padding = 1}));
}

TEST_F(LayerGoldenTest, NormalizationsMatchPyTorch) {
  check("BatchNorm2d training", BatchNorm2d(3));
  check("BatchNorm2d evaluation", BatchNorm2d(3), false);
  check("BatchNorm1d training", BatchNorm1d(4));
  check("LayerNorm", LayerNorm(5));
  check("RMSNorm", RMSNorm(5));
  check("GroupNorm", GroupNorm(2, 4));
  check("GroupNorm one group", GroupNorm(1, 5));
  check("InstanceNorm2d", InstanceNorm2d(4));
  check("InstanceNorm2d affine", InstanceNorm2d(4, 1e-5, true));
}

TEST_F(LayerGoldenTest, EmbeddingMatchesPyTorch) { check("Embedding", Embedding(6, 3)); }

TEST_F(LayerGoldenTest, PoolingsMatchPyTorch) {
  check("MaxPool2d", MaxPool2d(2));
  check("MaxPool2d 3 stride 2 padding 1", MaxPool2d(3, {.stride = 2, .padding = 1}));
  check("AvgPool2d 3 stride 2 padding 1", AvgPool2d(3, {.stride = 2, .padding = 1}));
  check("MaxPool1d 3 stride 2 padding 1", MaxPool1d(3, {.stride = 2, .padding = 1}));
  check("AvgPool1d 2", AvgPool1d(2));
  check("MaxPool3d 3 stride 2 padding 1", MaxPool3d(3, {.stride = 2, .padding = 1}));
  check("AvgPool3d 3 stride 1 padding 1", AvgPool3d(3, {.stride = 1, .padding = 1}));
  check("AdaptiveAvgPool2d", AdaptiveAvgPool2d(4));
}

TEST_F(LayerGoldenTest, ActivationsMatchPyTorch) {
  check("GELU", GELU());
  check("Sigmoid", Sigmoid());
  check("Tanh", Tanh());
  check("SiLU", SiLU());
  check("Softplus", Softplus());
  check("Softplus 2 3", Softplus(2, 3));
  check("LeakyReLU", LeakyReLU());
  check("LeakyReLU 0.2", LeakyReLU(0.2));
  check("ELU", ELU());
  check("ELU 0.5", ELU(0.5));
  check("Hardtanh", Hardtanh());
  check("Hardtanh -2 0.75", Hardtanh(-2, 0.75));
}

TEST_F(LayerGoldenTest, FusedReluEqualsReluAfterTheLayer) {
  const auto check_fusion = [](Module&& layer, const Tensor& input) {
    const Tensor fused_input = clone(input).set_requires_grad();
    const Tensor plain_input = clone(input).set_requires_grad();
    const Tensor fused = layer.forward_relu(fused_input);
    layer.zero_grad();
    sum(square(fused)).backward();
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : layer.parameters()) gradients.push_back(clone(parameter.grad()));
    layer.zero_grad();
    const Tensor plain = relu(layer.forward(plain_input));
    sum(square(plain)).backward();
    expect_close(fused, plain);
    expect_close(fused_input.grad(), plain_input.grad(), kSlack);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      expect_close(gradients[i], layer.parameters()[i].grad(), kSlack);
  };
  check_fusion(Linear(4, 3), cases_.at("Linear").at("input"));
  check_fusion(BatchNorm2d(3), cases_.at("Conv2d").at("input"));
}

TEST(FusedReluTest, ADerivedLayersOwnForwardIsCalled) {
  struct NegatedLinear : Linear {
    using Linear::Linear;
    Tensor forward(const Tensor& x, Where at) override { return -Linear::forward(x, at); }
  };
  struct NegatedNorm : BatchNorm2d {
    using BatchNorm2d::BatchNorm2d;
    Tensor forward(const Tensor& x, Where at) override { return -BatchNorm2d::forward(x, at); }
  };
  const auto expect_own = [](auto layer, const Tensor& x) {
    const Tensor expected = relu(layer(x));
    Sequential net(std::move(layer), ReLU());
    ringrad::testing::expect_same_bits(net(x), expected);
  };
  ringrad::testing::Random random(1);
  expect_own(NegatedLinear(4, 3), random.tensor({2, 4}));
  const Tensor image = random.tensor({2, 3, 4, 4}), residual = random.tensor({2, 3, 4, 4});
  expect_own(NegatedNorm(3), image);
  NegatedNorm norm(3);
  ringrad::testing::expect_same_bits(norm.forward_add_relu(image, residual),
                                     relu(norm(image) + residual));
}

}  // namespace
}  // namespace ringrad::nn
