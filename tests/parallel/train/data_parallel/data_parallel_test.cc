// The results of DataParallel; the reference is the module itself on the whole batch.

#include "ringrad/parallel/train/data_parallel/data_parallel.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <utility>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/parallel/train/told_module.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using namespace testing;  // expect_...

TEST(DataParallelTest, OutputsAndGradientsAreThoseOfOneDevice) {
  for (const int n : {1, 2, 3, 4})
    for (const std::int64_t rows : {12, 13, 2, 1}) {  // even, uneven, and fewer than devices
      SCOPED_TRACE(concat(n, " devices, ", rows, " rows"));
      auto [reference, net] = twins(make_net);
      DataParallel parallel(net, make_net, devices(n));
      const Tensor x = batch_of(rows).set_requires_grad(), z = batch_of(rows).set_requires_grad();
      const Tensor y = parallel(x), expected = reference(z);
      expect_close(y.detach(), expected.detach(), 4);
      EXPECT_EQ(y.device(), default_device());
      sum(square(y)).backward();
      sum(square(expected)).backward();
      expect_close_gradients(net, reference);
      expect_close(x.grad(), z.grad());
    }
}

// Replicas share the module's parameters, which stay where they are; one arena has them all.
TEST(DataParallelTest, AnOptimizerMadeAfterwardsStepsInOnePass) {
  auto [reference, net] = twins(make_net);
  DataParallel parallel(net, make_net, devices(2));
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1}),
      expected(reference.parameters(), {.learning_rate = 0.1});
  EXPECT_EQ(optimizer.arenas().size(), 1u);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    expected.zero_grad();
    sum(square(parallel(batch_of(8)))).backward();
    sum(square(reference(batch_of(8)))).backward();
    optimizer.step();
    expected.step();
  }
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    expect_close(net.parameters()[i].detach(), reference.parameters()[i].detach(), 256);
}

// Sums, products and quotients of elements are rounded alike wherever they lie.
TEST(DataParallelTest, OutputsOfElementwiseArithmeticHaveTheSameBits) {
  const auto function = [](const Tensor& x, const Tensor& weight, int) {
    return relu(x * weight / 3 - 0.1);
  };
  for (const int n : {2, 3, 4}) {
    ToldParallel told(n, function);
    const Tensor x = batch_of(11);
    expect_same_bits(told.parallel(x).detach(), function(x, told.net.weight, 0).detach());
  }
}

TEST(DataParallelTest, OneDeviceGivesTheBitsOfTheModule) {
  const auto make = [] {
    return nn::Sequential(nn::Linear(6, 16), nn::Dropout(0.5), nn::Linear(16, 3));
  };
  auto [reference, net] = twins(make);
  DataParallel parallel(net, make, devices(1));
  manual_seed(3);
  const Tensor y = parallel(batch_of(9));
  sum(square(y)).backward();
  const Tensor later = rand({4});
  manual_seed(3);
  const Tensor expected = reference(batch_of(9));
  sum(square(expected)).backward();
  expect_same_bits(y.detach(), expected.detach());
  expect_same_bits(later, rand({4}));
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    expect_same_bits(net.parameters()[i].grad(), reference.parameters()[i].grad());
}

TEST(DataParallelTest, GradientsAreAddedInTheOrderOfDevices) {
  // (1e8 - 1e8) + 1 is 1 in float32, and any other order gives 0.
  ToldParallel told(3, [](const Tensor& x, const Tensor& weight, int) { return x * weight; });
  const Tensor x = empty({3, 6}, {.device = testing::host_device()});
  const float rows[] = {1e8F, -1e8F, 1};
  for (int i = 0; i < 18; ++i) x.data<float>()[i] = rows[i / 6];
  sum(told.parallel(to(x, default_device()))).backward();
  expect_same_bits(told.net.weight.grad(), ones({6}));
}

TEST(DataParallelTest, TrainingGivesTheSameBitsEachTimeAndFollowsOneDevice) {
  const auto train = [](nn::Sequential& net, auto&& forward) {
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
    for (std::int64_t step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      mean(square(forward(batch_of(10 + step)))).backward();
      optimizer.step();
    }
  };
  auto [reference, net] = twins(make_net);
  nn::Sequential again = make_net();
  again.load_state_dict(net.state_dict());
  DataParallel parallel(net, make_net, devices(3)), repeated(again, make_net, devices(3));
  train(reference, reference);
  train(net, parallel);
  train(again, repeated);
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    expect_same_bits(net.parameters()[i], again.parameters()[i]);
    expect_close(net.parameters()[i], reference.parameters()[i], 64);
  }
}

TEST(DataParallelTest, OneDeviceMayHaveSeveralReplicas) {
  auto [reference, net] = twins(make_net);
  DataParallel parallel(net, make_net, std::vector<Device>(3, default_device()));
  sum(square(parallel(batch_of(8)))).backward();
  sum(square(reference(batch_of(8)))).backward();
  expect_close_gradients(net, reference);
}

TEST(DataParallelTest, PartsDifferByOneRowAtMost) {
  for (const std::int64_t rows : {0, 1, 3, 4, 5, 10}) {
    std::array<std::atomic<std::int64_t>, 4> seen{};
    for (auto& count : seen) count = -1;
    ToldParallel told(4, [&](const Tensor& x, const Tensor& weight, int k) {
      seen[static_cast<std::size_t>(k)] = x.size(0);
      return x * weight;
    });
    EXPECT_EQ(told.parallel(batch_of(rows)).shape(), (Shape{rows, 6}));
    for (std::int64_t k = 0; k < 4; ++k) {
      const bool works = k < std::max<std::int64_t>(rows, 1);
      EXPECT_EQ(seen[static_cast<std::size_t>(k)], works ? rows / 4 + (k < rows % 4) : -1) << rows;
    }
  }
}

TEST(DataParallelTest, WithoutRecordingReplicasDoNotRecordEither) {
  ToldParallel told(2, [](const Tensor& x, const Tensor& weight, int) {
    const Tensor y = x * weight;
    EXPECT_FALSE(y.requires_grad());
    return y;
  });
  const NoGradGuard guard;
  EXPECT_FALSE(told.parallel(batch_of(4)).requires_grad());
}

TEST(DataParallelTest, AutocastHoldsInReplicas) {
  std::atomic<int> num_checked = 0;
  ToldParallel told(2, [&](const Tensor& x, const Tensor& weight, int) {
    num_checked += autocast_dtype() == DType::bfloat16;
    return x * weight;
  });
  const Autocast mixed(DType::bfloat16);
  told.parallel(batch_of(4));
  EXPECT_EQ(num_checked, 2);
}

TEST(DataParallelTest, ReplicasDrawDifferentRandomNumbersThatFollowTheSeed) {
  ToldParallel told(2, [](const Tensor& x, const Tensor&, int) { return rand(x.shape()); });
  const auto draw = [&](std::uint64_t seed) {
    manual_seed(seed);
    return told.parallel(zeros({2, 6})).to_vector<float>();
  };
  const auto first = draw(1);
  EXPECT_NE(std::vector(first.begin(), first.begin() + 6),
            std::vector(first.begin() + 6, first.end()));
  EXPECT_EQ(draw(1), first);
  EXPECT_NE(draw(2), first);
  EXPECT_NE(told.parallel(zeros({2, 6})).to_vector<float>(), draw(2)) << "draws go on";
}

TEST(DataParallelTest, TrainingAndEvaluationHoldModuleByModule) {
  const auto make = [] {
    return nn::Sequential(nn::BatchNorm1d(6), nn::Dropout(0.9), nn::Linear(6, 2));
  };
  auto [reference, net] = twins(make);
  DataParallel parallel(net, make, devices(3));
  parallel(batch_of(9));  // in training: the statistics move
  EXPECT_NE(net.named_buffers()[0].second.to_vector<float>(), std::vector<float>(6, 0));
  reference.load_state_dict(net.state_dict());
  net.eval();
  reference.eval();
  expect_close(parallel(batch_of(9)).detach(), reference(batch_of(9)).detach(), 4);
  net.visit([](const std::string& path, nn::Module& module) { module.train(path == "1"); });
  const auto statistics = net.named_buffers()[0].second.to_vector<float>();
  EXPECT_NE(parallel(batch_of(9)).to_vector<float>(), reference(batch_of(9)).to_vector<float>())
      << "dropout alone is in training";
  EXPECT_EQ(net.named_buffers()[0].second.to_vector<float>(), statistics);
}

TEST(DataParallelTest, RunningStatisticsAreThoseOfTheFirstReplica) {
  const auto make = [] { return nn::Sequential(nn::BatchNorm1d(6)); };
  auto [reference, net] = twins(make);
  DataParallel parallel(net, make, devices(2));
  for (int step = 0; step < 3; ++step) {
    const Tensor x = batch_of(8 + step);
    parallel(x);
    reference(view::slice(x, 0, 0, (8 + step + 1) / 2));
  }
  for (std::size_t i = 0; i < net.named_buffers().size(); ++i)
    expect_close(net.named_buffers()[i].second, reference.named_buffers()[i].second);
}

TEST(DataParallelTest, ConvolutionsAndBatchNormTrain) {
  const auto make = [] { return nn::convnet({.height = 8, .width = 8}); };
  nn::Sequential net = make();
  DataParallel parallel(net, make, devices(2));
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.05});
  Generator generator(1);
  const Tensor x = randn({6, 1, 8, 8}, {}, generator);
  const Tensor y = to(randint(0, 10, {6}, generator), default_device());
  std::vector<float> losses;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(parallel(x), y);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<float>());
  }
  EXPECT_LT(losses.back(), losses.front());
}

TEST(DataParallelTest, FrozenParametersGetNoGradients) {
  nn::Sequential net = make_net();
  net.parameters()[0].set_requires_grad(false);
  DataParallel parallel(net, make_net, devices(2));
  sum(parallel(batch_of(4))).backward();
  EXPECT_FALSE(net.parameters()[0].grad().defined());
  EXPECT_TRUE(net.parameters()[2].grad().defined());
  net.parameters()[0].set_requires_grad();
  sum(parallel(batch_of(4))).backward();
  EXPECT_TRUE(net.parameters()[0].grad().defined());
  for (const Tensor& parameter : net.parameters()) parameter.set_requires_grad(false);
  EXPECT_FALSE(parallel(batch_of(4)).requires_grad());
}

TEST(DataParallelTest, ParametersThatNoReplicaUsesGetNoGradient) {
  ToldParallel told(2, [](const Tensor& x, const Tensor&, int) { return x * 2; });
  const Tensor x = batch_of(4).set_requires_grad();
  sum(told.parallel(x)).backward();
  EXPECT_FALSE(told.net.weight.grad().defined());
  expect_same_bits(x.grad(), full({4, 6}, 2));
}

TEST(DataParallelTest, AParameterMayBeUsedOnSomeReplicasOnly) {
  ToldParallel told(
      3, [](const Tensor& x, const Tensor& weight, int k) { return k == 1 ? x * weight : x; });
  const Tensor x = ones({6, 6});
  sum(told.parallel(x)).backward();
  expect_same_bits(told.net.weight.grad(), full({6}, 2));
}

// Replicas must work on the stream that the caller chose: nothing else orders them.
TEST(DataParallelTest, ReplicasWorkOnTheCallersStream) {
  if (default_device().is_cpu()) GTEST_SKIP() << "needs GPUs";
  auto [reference, net] = twins(make_net);
  DataParallel parallel(net, make_net, devices(2));
  synchronize(default_device());
  const Stream side(default_device());
  const StreamGuard guard(side);
  sum(square(parallel(batch_of(6)))).backward();
  sum(square(reference(batch_of(6)))).backward();
  expect_close_gradients(net, reference);
}

}  // namespace
}  // namespace ringrad
