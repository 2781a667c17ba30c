// A model whose layers lie on two devices computes the same bits as on one.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/stall.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;

struct Net : Module {
  Linear& hidden = child("hidden", Linear(6, 5));
  Linear& output = child("output", Linear(5, 6));

  Tensor forward(const Tensor& x, Where at) override {
    const Device first = hidden.weight.device(), second = output.weight.device();
    const Tensor y = output(to(relu(hidden(to(x, first), at)), second), at);
    return to(y, first) + to(x, first);  // residual, across the devices and back
  }
};

struct Devices {
  Device first, second;
};

std::vector<Devices> pairs_of_devices() {
  std::vector<Devices> pairs = {{"cpu:0", "cpu:1"}};
  if (num_cuda_devices() >= 2) pairs.push_back({"cuda:0", "cuda:1"});
  return pairs;
}

// The same model twice: on two devices, and on the first alone.
struct Twins {
  explicit Twins(const Devices& devices) {
    alone.load_state_dict(net.state_dict());
    net.hidden.to(devices.first);
    net.output.to(devices.second);
    alone.to(devices.first);
  }

  void expect_same(const std::function<Tensor(const Tensor&)>& of) const {
    const auto a = net.parameters(), b = alone.parameters();
    for (std::size_t i = 0; i < a.size(); ++i)
      expect_same_bits(to(of(a[i]), Device()), to(of(b[i]), Device()));
  }

  Net net, alone;
};

Tensor batch() { return sin(reshape(arange(24.f), {4, 6})); }

TEST(TwoDevicesTest, GradientsAreThoseOfOneDevice) {
  for (const Devices& devices : pairs_of_devices()) {
    Twins twins(devices);
    for (Net* net : {&twins.net, &twins.alone}) sum(square((*net)(batch()))).backward();
    EXPECT_EQ(twins.net.output.weight.grad().device(), devices.second);
    twins.expect_same([](const Tensor& parameter) { return parameter.grad(); });
  }
}

// With an arena on each device.
template <class MakeOptimizer>
void expect_same_training(MakeOptimizer make_optimizer) {
  for (const Devices& devices : pairs_of_devices()) {
    Twins twins(devices);
    for (Net* net : {&twins.net, &twins.alone}) {
      const auto optimizer = make_optimizer(net->parameters());
      for (int step = 0; step < 5; ++step) {
        optimizer->zero_grad();
        mean(square((*net)(batch()))).backward();
        optimizer->step();
      }
    }
    twins.expect_same([](const Tensor& parameter) { return parameter.detach(); });
  }
}

TEST(TwoDevicesTest, OptimizersStepOnBoth) {
  expect_same_training([](const std::vector<Tensor>& parameters) {
    return std::make_unique<SGD>(parameters, SGDOptions{.learning_rate = 0.1, .momentum = 0.9});
  });
  expect_same_training([](const std::vector<Tensor>& parameters) {
    return std::make_unique<Adam>(parameters, AdamOptions{.learning_rate = 0.1});
  });
}

TEST(TwoDevicesTest, ClippingTakesTheNormOverBoth) {
  for (const Devices& devices : pairs_of_devices()) {
    Net net;
    net.hidden.to(devices.first);
    net.output.to(devices.second);
    const SGD optimizer(net.parameters());
    for (const Tensor& parameter : net.parameters())
      parameter.set_grad(ones(parameter.shape(), {.device = parameter.device()}));
    EXPECT_NEAR(clip_grad_norm(optimizer.arenas(), 1),
                std::sqrt(static_cast<double>(net.num_parameters())), 1e-5);
  }
}

TEST(TwoDevicesTest, AForgottenToNamesBothDevices) {
  Linear hidden(6, 5), output(5, 6);
  output.to("cpu:1");
  expect_throws<DeviceError>(
      [&] {
        output(relu(hidden(ones({4, 6}))));
      },
      "tensors must be on one device; got cpu:0 and cpu:1; move one with "
      "to(x, device)");
}

TEST(TwoDevicesTest, MovingAModuleAwayFromItsOptimizerIsNoticed) {
  Net net;
  SGD optimizer(net.parameters());
  net.output.to("cpu:1");
  sum(net(batch())).backward();
  EXPECT_THROW(optimizer.step(), AutogradError);
}

TEST(TwoDevicesTest, NoHostWaitsForAGpu) {
  if (testing::num_gpus() < 2) GTEST_SKIP() << "fewer than two GPUs";
  Twins twins({"cuda:0", "cuda:1"});
  const Tensor x = to(batch(), "cuda:0");
  sum(square(twins.alone(x))).backward();
  const DefaultDeviceGuard guard("cuda:0");
  ringrad::testing::Stall stall;
  stall.begin();
  const Event over(current_stream("cuda:0"));
  sum(square(twins.net(x))).backward();
  EXPECT_FALSE(over.is_done());
  stall.end();
  twins.expect_same([](const Tensor& parameter) { return parameter.grad(); });
}

}  // namespace
}  // namespace ringrad::nn
