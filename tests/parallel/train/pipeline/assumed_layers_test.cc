// Compares counted flops with those computed by hand, and checks the assumed times.

#include "ringrad/parallel/train/pipeline/assumed_layers.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/models/models.h"

namespace ringrad {
namespace {

double total_flops(const std::vector<LayerWork>& work) {
  double flops = 0;
  for (const LayerWork& layer : work) flops += layer.flops;
  return flops;
}

TEST(AssumedLayersTest, CountTheFlopsOfMatrixProducts) {
  nn::Sequential net = nn::mlp();
  const std::vector<LayerWork> work = count_work(net, {1, 28, 28});
  ASSERT_EQ(work.size(), 6u);  // Flatten, Linear, ReLU, Linear, ReLU, Linear
  EXPECT_DOUBLE_EQ(work[0].flops, 0);
  EXPECT_DOUBLE_EQ(work[1].flops, 2.0 * 784 * 512);
  EXPECT_DOUBLE_EQ(work[3].flops, 2.0 * 512 * 512);
  EXPECT_DOUBLE_EQ(work[5].flops, 2.0 * 512 * 10);
  EXPECT_EQ(work[1].bytes.parameter_bytes, 4 * (784 * 512 + 512));
  EXPECT_EQ(work[1].bytes.output_bytes, 4 * 512);
  EXPECT_DOUBLE_EQ(work[1].input_bytes, 4 * 784);
  EXPECT_FALSE(work[1].needs_input_gradient);
  EXPECT_TRUE(work[3].needs_input_gradient);
  for (const Tensor& parameter : net.parameters())
    EXPECT_TRUE(!parameter.grad().defined() || parameter.grad().numel() == parameter.numel());
}

// The convolutions of He et al. 2015, section 4.2, with projections: places x weights, layer by
// layer.
TEST(AssumedLayersTest, CountTheConvolutionsInsideOfBlocks) {
  nn::Sequential net = nn::resnet20({.channels = 3, .height = 32, .width = 32});
  const double stem = 3 * 16 * 9 * 1024.0, stage = 6 * (16 * 16 * 9 * 1024.0),
               halved = 16 * 32 * 9 * 256.0 + 5 * (32 * 32 * 9 * 256.0) + 16 * 32 * 256.0,
               quartered = 32 * 64 * 9 * 64.0 + 5 * (64 * 64 * 9 * 64.0) + 32 * 64 * 64.0;
  EXPECT_DOUBLE_EQ(total_flops(count_work(net, {3, 32, 32})),
                   2 * (stem + stage + halved + quartered + 64 * 10));
}

TEST(AssumedLayersTest, ASampleIsWorthTheSameInEveryBatch) {
  nn::Sequential net = nn::convnet();
  const std::vector<LayerWork> work = count_work(net, {1, 28, 28});
  const Topology topology = named_topology("nvlink8", 1);
  const auto small = assumed_layers(work, 8, topology, 0.5),
             large = assumed_layers(work, 80'000, topology, 0.5);
  for (std::size_t i = 0; i < work.size(); ++i) {
    EXPECT_EQ(large[i].output_bytes, 10'000 * small[i].output_bytes);
    EXPECT_EQ(large[i].saved_bytes, 10'000 * small[i].saved_bytes);
    EXPECT_EQ(large[i].parameter_bytes, small[i].parameter_bytes);
    EXPECT_GE(large[i].forward_s, small[i].forward_s);
    EXPECT_EQ(small[i].backward_weight_s > 0, small[i].parameter_bytes > 0) << small[i].name;
    if (work[i].bytes.joined) {
      EXPECT_EQ(large[i].seconds(), 0);
    }
    EXPECT_GE(large[i].forward_s, 80'000 * work[i].flops / topology.device.flops_per_s);
  }
  EXPECT_EQ(small.front().backward_input_s, 0);
}

TEST(AssumedLayersTest, RefuseWhatMakesNoSense) {
  nn::Sequential net = nn::mlp();
  const std::vector<LayerWork> work = count_work(net, {1, 28, 28});
  const Topology topology = named_topology("nvlink8", 1);
  EXPECT_THROW(assumed_layers(work, 0, topology, 0.5), std::invalid_argument);
  EXPECT_THROW(assumed_layers(work, 1, topology, 0), std::invalid_argument);
  EXPECT_THROW(assumed_layers(work, 1, topology, 1.5), std::invalid_argument);
  EXPECT_THROW(count_work(net, {3, 28, 28}), Error);
  nn::Sequential empty;
  EXPECT_THROW(count_work(empty, {1}), ValueError);
}

}  // namespace
}  // namespace ringrad
