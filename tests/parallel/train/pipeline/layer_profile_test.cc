#include "ringrad/parallel/train/pipeline/layer_profile.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/pool.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;

constexpr ProfileOptions kOnce{.warm_up = 1, .repeats = 1};

// On a CPU, the records of an operator count as well: nodes, and the tensors that they hold.
constexpr std::int64_t kTapeBytes = 2048;

void expect_bytes(const LayerCost& cost, std::int64_t bytes) {
  EXPECT_GE(cost.saved_bytes, bytes) << cost.name;
  EXPECT_LE(cost.saved_bytes, bytes + kTapeBytes) << cost.name;
}

TEST(LayerProfileTest, NamesLayersAndJoinsWhatRunsInOnePass) {
  nn::Sequential net(nn::Linear(8, 16), nn::ReLU(), nn::Tanh(), nn::ReLU());
  const auto costs = profile_layers(net, randn({4, 8}), kOnce);
  ASSERT_EQ(costs.size(), 4U);
  EXPECT_EQ(costs[0].name, "0 Linear");
  EXPECT_EQ(costs[3].name, "3 ReLU");
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_FALSE(costs[i].joined);
    EXPECT_GT(costs[i].forward_s, 0);
  }
  for (const std::size_t i : {1U, 3U}) {
    EXPECT_TRUE(costs[i].joined);
    EXPECT_EQ(costs[i].seconds(), 0);
    EXPECT_EQ(costs[i].saved_bytes, 0);
    EXPECT_EQ(costs[i].parameter_bytes, 0);
    EXPECT_EQ(costs[i].output_bytes, 4 * 16 * 4);
  }
}

TEST(LayerProfileTest, LayersWhoseNamesArePathsAreLayers) {
  nn::Sequential net;
  net.append("stem", nn::Linear(8, 4));
  net.append("layer1.0", nn::Linear(4, 6));
  net.append("layer1.1.fc", nn::Linear(6, 2));
  const auto costs = profile_layers(net, randn({3, 8}), kOnce);
  ASSERT_EQ(costs.size(), 3U);
  EXPECT_EQ(costs[1].name, "layer1.0 Linear");
  EXPECT_EQ(costs[2].name, "layer1.1.fc Linear");
}

TEST(LayerProfileTest, CountsParametersAndOutputs) {
  nn::Sequential net(nn::Conv2d(3, 8, {.padding = 1}), nn::MaxPool2d(2), nn::Flatten(),
                     nn::Linear(8 * 16, 10));
  const auto costs = profile_layers(net, randn({2, 3, 8, 8}), kOnce);
  EXPECT_EQ(costs[0].parameter_bytes, 4 * (8 * 3 * 9 + 8));
  EXPECT_EQ(costs[1].parameter_bytes, 0);
  EXPECT_EQ(costs[3].parameter_bytes, 4 * (8 * 16 * 10 + 10));
  EXPECT_EQ(costs[0].output_bytes, 4 * 2 * 8 * 64);
  EXPECT_EQ(costs[1].output_bytes, 4 * 2 * 8 * 16);
  EXPECT_EQ(costs[2].output_bytes, costs[1].output_bytes);
  EXPECT_EQ(costs[3].output_bytes, 4 * 2 * 10);
}

// Sizes are powers of two, which the allocators round to themselves.
TEST(LayerProfileTest, SavedBytesAreThoseComputedByHand) {
  constexpr std::int64_t kKibi = 1024;
  nn::Sequential net(nn::Linear(256, 1024),              // 64 x 1024, which the next layer keeps
                     nn::Linear(1024, 256), nn::ReLU(),  // 64 x 256, which both keep
                     nn::Linear(256, 512),               // 64 x 512: no layer keeps it
                     nn::Tanh(),                         // 64 x 512: keeps its result,
                     nn::Sigmoid(),                      // and so does this one
                     nn::GELU());                        // 64 x 512: where backward begins
  const auto costs = profile_layers(net, randn({64, 256}), kOnce);
  expect_bytes(costs[0], 256 * kKibi);
  expect_bytes(costs[1], 64 * kKibi);
  EXPECT_EQ(costs[2].saved_bytes, 0);
  expect_bytes(costs[3], 0);
  expect_bytes(costs[4], 128 * kKibi);
  expect_bytes(costs[5], 128 * kKibi);
  expect_bytes(costs[6], 128 * kKibi);
}

// A convolution runs in channels-last order. It keeps its input in that order, if the input has
// another one, and the next layer keeps its output.
TEST(LayerProfileTest, ConvolutionsKeepTheirInput) {
  nn::Sequential net(nn::Conv2d(8, 16, {.padding = 1}), nn::Conv2d(16, 16, {.padding = 1}),
                     nn::Tanh());
  const auto costs =
      profile_layers(net, randn({4, 8, 16, 16}, {.layout = Layout::channels_last}), kOnce);
  expect_bytes(costs[0], 4 * 16 * 256 * 4);
  expect_bytes(costs[1], 0);
  expect_bytes(costs[2], 4 * 16 * 256 * 4);
}

// Tanh keeps its result, so no layer keeps its input, which has two names.
TEST(LayerProfileTest, AViewIsCountedWhereItsMemoryWasMade) {
  nn::Sequential net(nn::Linear(256, 512), nn::Flatten(), nn::Tanh());
  const auto costs = profile_layers(net, randn({64, 256}), kOnce);
  expect_bytes(costs[0], 0);
  expect_bytes(costs[1], 0);
  expect_bytes(costs[2], 64 * 512 * 4);
}

// Consecutive layers together keep the sum of their costs.
TEST(LayerProfileTest, SavedBytesAddUpToThoseOfTheNet) {
  nn::Sequential net = nn::convnet();
  const Tensor x = randn({8, 1, 28, 28});
  const auto costs = profile_layers(net, x, kOnce);
  const auto allocated = [] { return allocator_stats(default_device()).allocated_bytes; };
  const std::int64_t before = allocated();
  const Tensor y = net(x);
  const std::int64_t kept = allocated() - before;
  std::int64_t sum = 0;
  for (const LayerCost& cost : costs) sum += cost.saved_bytes;
  const auto tapes = static_cast<std::int64_t>(costs.size()) * kTapeBytes;
  EXPECT_GT(sum, 8 * 32 * 28 * 28 * 4);
  EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(kept), static_cast<double>(tapes));
}

// --- Times: only orders that no scheduler can reverse --------------------------------------------

TEST(LayerProfileTest, LargerLayersTakeLonger) {
  nn::Sequential net(nn::Linear(8, 8), nn::Linear(8, 512), nn::Linear(512, 512), nn::Linear(512, 8),
                     nn::Linear(8, 8));
  const auto costs = profile_layers(net, randn({32, 8}), {.warm_up = 1, .repeats = 3});
  EXPECT_GT(costs[2].seconds(), costs[0].seconds());
  EXPECT_GT(costs[2].seconds(), costs[4].seconds());
}

TEST(LayerProfileTest, BackwardIsSplitByWhatNeedsAGradient) {
  nn::Sequential net(nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, 64));
  net.named_parameters()[2].second.set_requires_grad(false);
  net.named_parameters()[3].second.set_requires_grad(false);
  Tensor x = randn({16, 64});
  auto costs = profile_layers(net, x, kOnce);
  EXPECT_EQ(costs[0].backward_input_s, 0);
  EXPECT_GT(costs[0].backward_weight_s, 0);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_GT(costs[i].backward_input_s, 0);
    EXPECT_EQ(costs[i].backward_weight_s, 0);
  }
  x.set_requires_grad();
  EXPECT_GT(profile_layers(net, x, kOnce)[0].backward_input_s, 0);
  EXPECT_FALSE(x.grad().defined());
}

TEST(LayerProfileTest, NothingIsGoneBackThroughWhatNeedsNoGradient) {
  nn::Sequential net(nn::Tanh(), nn::Linear(4, 4));
  const auto costs = profile_layers(net, randn({2, 4}), kOnce);
  EXPECT_EQ(costs[0].backward_input_s + costs[0].backward_weight_s, 0);
  EXPECT_EQ(costs[1].backward_input_s, 0);
  EXPECT_GT(costs[1].backward_weight_s, 0);
}

// --- The net stays as it is --------------------------------------------------------------------

nn::Sequential net_with_state() {
  nn::Sequential net(nn::Conv2d(2, 4), nn::BatchNorm2d(4), nn::ReLU(), nn::Dropout(0.5),
                     nn::Dropout(0.25), nn::Flatten(), nn::Linear(4 * 16, 3));
  net.visit([](const std::string& path, nn::Module& module) {
    if (path == "4") module.eval();
  });
  net.parameters()[0].set_requires_grad(false);
  return net;
}

// Copies of all bits, and of everything else that is visible.
struct Snapshot {
  explicit Snapshot(nn::Sequential& net) : offset(default_generator().offset()) {
    for (const auto& [name, tensor] : net.state_dict()) {
      values.push_back(testing::contiguous_copy(tensor));
      addresses.push_back(tensor.raw_data());
    }
    for (const Tensor& parameter : net.parameters()) {
      trained.push_back(parameter.requires_grad());
      const Tensor grad = parameter.grad();
      grads.push_back(grad.defined() ? testing::contiguous_copy(grad) : Tensor());
    }
    net.visit(
        [&](const std::string&, nn::Module& module) { modes.push_back(module.is_training()); });
  }
  std::uint64_t offset;
  std::vector<Tensor> values, grads;
  std::vector<const std::byte*> addresses;
  std::vector<bool> trained, modes;
};

void expect_same(const Snapshot& a, const Snapshot& b) {
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.addresses, b.addresses);
  EXPECT_EQ(a.trained, b.trained);
  EXPECT_EQ(a.modes, b.modes);
  for (std::size_t i = 0; i < a.values.size(); ++i) expect_same_bits(a.values[i], b.values[i]);
  for (std::size_t i = 0; i < a.grads.size(); ++i) {
    ASSERT_EQ(a.grads[i].defined(), b.grads[i].defined()) << i;
    if (a.grads[i].defined()) expect_same_bits(a.grads[i], b.grads[i]);
  }
}

TEST(LayerProfileTest, LeavesTheNetAsItWas) {
  nn::Sequential net = net_with_state();
  const Tensor x = randn({4, 2, 6, 6});
  net(x);  // running statistics that are not the first ones
  net.parameters()[1].set_grad(ones({4}));
  const Snapshot before(net);
  profile_layers(net, x, kOnce);
  expect_same(before, Snapshot(net));
}

TEST(LayerProfileTest, LeavesTheNetAsItWasAfterAnError) {
  nn::Sequential net = net_with_state();
  net.append(nn::Linear(5, 5));
  const Tensor x = randn({4, 2, 6, 6});
  const Snapshot before(net);
  expect_throws<ShapeError>([&] { profile_layers(net, x, kOnce); },
                            "profile_layers: layer 7 Linear: linear: ");
  expect_same(before, Snapshot(net));
}

TEST(LayerProfileTest, MeasuresBackwardUnderNoGradToo) {
  nn::Sequential net(nn::Linear(4, 4));
  const NoGradGuard guard;
  EXPECT_GT(profile_layers(net, randn({2, 4}), kOnce)[0].backward_weight_s, 0);
  EXPECT_FALSE(grad_enabled());
}

// --- Refused -----------------------------------------------------------------------------------

TEST(LayerProfileTest, RefusesWhatCannotBeMeasured) {
  nn::Sequential empty_net;
  nn::Sequential net(nn::Linear(4, 4));
  const Tensor x = randn({2, 4});
  expect_throws<ValueError>([&] { profile_layers(empty_net, x); }, "must have layers; got none");
  expect_throws<ValueError>([&] { profile_layers(net, Tensor()); }, "there must be a sample");
  expect_throws<ValueError>([&] { profile_layers(net, x, {.warm_up = -1}); }, "got -1 and 5");
  expect_throws<ValueError>([&] { profile_layers(net, x, {.repeats = 0}); }, "got 2 and 0");
  expect_throws<ShapeError>(
      [&] {
        profile_layers(net, randn({2, 5}));
      },
      "profile_layers: layer 0 Linear: linear: x (..., K)");
}

}  // namespace
}  // namespace ringrad
