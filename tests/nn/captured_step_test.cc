#include "ringrad/nn/captured_step.h"

#include <memory>
#include <vector>

#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using nn::CapturedStep;
using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

class CapturedStepTest : public testing::NeedsGpu {
 protected:
  // A network with everything that has state: dropout, batch norm, an optimizer with a schedule.
  struct Training {
    Training(Device device, bool adam) : net(seeded()) {
      net.to(device);
      if (adam)
        optimizer = std::make_unique<nn::Adam>(net.parameters());
      else
        optimizer = std::make_unique<nn::SGD>(
            net.parameters(), nn::SGDOptions{.learning_rate = 0.1, .momentum = 0.9});
    }

    static nn::Sequential seeded() {
      manual_seed(3);
      return nn::Sequential(nn::Linear(6, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Dropout(0.25),
                            nn::Linear(8, 3));
    }

    std::vector<Tensor> step(const std::vector<Tensor>& batch) {
      optimizer->zero_grad();
      const Tensor loss = cross_entropy(net(batch[0]), batch[1]);
      loss.backward();
      optimizer->step();
      return {loss};
    }

    nn::Sequential net;
    std::unique_ptr<nn::Optimizer> optimizer;
  };
};

class CapturedTrainingTest : public CapturedStepTest, public ::testing::WithParamInterface<bool> {};

// With the caching allocator, memory that a captured kernel has freed is used again in the capture.
TEST_P(CapturedTrainingTest, HasTheBitsOfTrainingWithoutCapture) {
  set_cuda_caching(GetParam());
  for (const bool adam : {false, true}) {
    Training eager(gpu, adam), captured(gpu, adam);
    CapturedStep step([&](const std::vector<Tensor>& batch) { return captured.step(batch); },
                      captured.net.parameters());
    Random random(4);
    for (int i = 0; i < 6; ++i) {
      const double rate = 0.1 / (1 + i);
      eager.optimizer->set_learning_rate(rate);
      captured.optimizer->set_learning_rate(rate);
      const Tensor x = random.tensor({16, 6}), y = randint(0, 3, {16}, random.generator());
      Generator before = default_generator();
      const Tensor expected = eager.step({to(x, gpu), to(y, gpu)})[0];
      default_generator() = before;  // both draw the same dropout masks
      const Tensor loss = step({x, y})[0];
      expect_same_bits(loss, expected);
      EXPECT_EQ(step.is_captured(), i > 0);
    }
    const nn::StateDict state = captured.net.state_dict();
    for (const auto& [name, tensor] : eager.net.state_dict())
      expect_same_bits(state.at(name), tensor);
    EXPECT_GT(step.num_nodes(), 20u);
  }
}

INSTANTIATE_TEST_SUITE_P(Caching, CapturedTrainingTest, ::testing::Bool());

TEST_F(CapturedStepTest, OnACpuItIsTheFunction) {
  int calls = 0;
  CapturedStep step(
      [&](const std::vector<Tensor>& in) {
        ++calls;
        return std::vector{in[0] + 1};
      },
      {});
  for (int i = 0; i < 3; ++i) expect_close(step({tensor({1., 2.})})[0], {2, 3});
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(step.is_captured());
}

TEST_F(CapturedStepTest, InputsMustStayWhatTheyWere) {
  const Tensor weight = ones({3}, {.device = gpu});
  CapturedStep step([&](const std::vector<Tensor>& in) { return std::vector{in[0] * weight}; },
                    {weight});
  for (int i = 0; i < 3; ++i) expect_close(step({tensor({1., 2., 3.})})[0], {1, 2, 3});
  expect_throws<ShapeError>(
      [&] {
        step({tensor({1., 2.})});
      },
      "input 0 must keep its shape; got (2,) after (3,)");
  expect_throws<DTypeError>([&] { step({arange(3)}); },
                            "input 0 must keep its dtype; got int64 after float32");
  expect_throws<ValueError>([&] { step({}); },
                            "as many inputs as in its first call; got 0 after 1");
  expect_close(step({tensor({4., 5., 6.})})[0], {4, 5, 6});
}

TEST_F(CapturedStepTest, AMovedParameterIsNoticed) {
  const Tensor weight = ones({3}, {.device = gpu});
  CapturedStep step([&](const std::vector<Tensor>& in) { return std::vector{in[0] * weight}; },
                    {weight});
  for (int i = 0; i < 2; ++i) step({tensor({1., 2., 3.})});
  weight.set_data(full({3}, 2, {.device = gpu}));
  expect_throws<ValueError>(
      [&] {
        step({tensor({1., 2., 3.})});
      },
      "fixed tensor 0 must stay where it was when the step was captured");
}

// The device repeats the work alone, so the step must tell whoever compares versions.
TEST_F(CapturedStepTest, ACallMarksWhatItChanges) {
  Training training(gpu, false);
  const Tensor constant = ones({3}, {.device = gpu});
  std::vector<Tensor> fixed = training.net.parameters();
  for (const auto& [name, buffer] : training.net.named_buffers()) fixed.push_back(buffer);
  const std::size_t num_changed = fixed.size();
  fixed.push_back(constant);
  CapturedStep step([&](const std::vector<Tensor>& batch) { return training.step(batch); }, fixed);
  const Tensor x = Random(4).tensor({16, 6}), y = zeros({16}, {.dtype = DType::int64});
  for (int i = 0; i < 4; ++i) {
    std::vector<std::uint32_t> before;
    for (const Tensor& tensor : fixed) before.push_back(tensor.version());
    step({x, y});
    for (std::size_t k = 0; k < num_changed; ++k)
      EXPECT_NE(fixed[k].version(), before[k]) << "call " << i << ", tensor " << k;
    EXPECT_EQ(constant.version(), before.back());
  }
}

TEST_F(CapturedStepTest, WhatCannotBeRepeatedThrows) {
  const Tensor weight = ones({3}, {.device = gpu});
  const auto refuses = [&](const CapturedStep::Function& function, const char* what) {
    CapturedStep step(function, {weight});
    step({tensor({1., 2., 3.})});
    expect_throws<CudaError>([&] { step({tensor({1., 2., 3.})}); }, what);
  };
  refuses(
      [&](const std::vector<Tensor>& in) {
        return std::vector{sum(in[0]).item() > 0 ? in[0] : weight};
      },
      "work that the device repeats alone; got a copy to the CPU (item()");
  nn::SGD optimizer({weight.detach().set_requires_grad()}, {.learning_rate = 1});
  refuses(
      [&](const std::vector<Tensor>& in) {
        optimizer.set_learning_rate(0.5);
        return in;
      },
      "got set_learning_rate()");
}

}  // namespace
}  // namespace ringrad
