// DataParallel as a part of graphs, and its failures.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/tests/parallel/train/told_module.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using namespace testing;  // expect_...

TEST(DataParallelGraphTest, TwoForwardPassesMayComeBeforeTheirBackwardPasses) {
  auto [reference, net] = twins(make_net);
  DataParallel parallel(net, make_net, devices(3));
  const Tensor a = parallel(batch_of(5)), b = parallel(batch_of(7));
  sum(square(b)).backward();
  sum(square(a)).backward();
  sum(square(reference(batch_of(7)))).backward();
  sum(square(reference(batch_of(5)))).backward();
  expect_close_gradients(net, reference);
}

TEST(DataParallelGraphTest, AStepBetweenForwardAndBackwardIsNoticedAsOnOneDevice) {
  for (const int n : {1, 3}) {
    nn::Sequential net = make_net();
    DataParallel parallel(net, make_net, devices(n));
    const Tensor y = parallel(batch_of(6));
    {
      const NoGradGuard guard;
      for (const Tensor& parameter : net.parameters()) mul_(parameter, 2);
    }
    EXPECT_THROW(sum(square(y)).backward(), AutogradError);
  }
}

TEST(DataParallelGraphTest, ASecondBackwardNeedsTheHistory) {
  nn::Sequential net = make_net();
  DataParallel parallel(net, make_net, devices(2));
  const Tensor y = sum(square(parallel(batch_of(6))));
  y.backward({}, {.retain_graph = true});
  const Tensor twice = net.parameters()[0].grad() * 2;
  y.backward();
  expect_same_bits(net.parameters()[0].grad(), twice);
  expect_throws<AutogradError>([&] { y.backward(); }, "got a second backward through it");
}

TEST(DataParallelGraphTest, GradLeavesLeavesAlone) {
  auto [reference, net] = twins(make_net);
  DataParallel parallel(net, make_net, devices(2));
  const Tensor actual = grad(sum(square(parallel(batch_of(6)))), net.parameters()[0]);
  const Tensor expected = grad(sum(square(reference(batch_of(6)))), reference.parameters()[0]);
  expect_close(actual, expected);
  EXPECT_FALSE(net.parameters()[0].grad().defined());
}

TEST(DataParallelGraphTest, GraphsOutliveTheirMaker) {
  auto [reference, net] = twins(make_net);
  Tensor y;
  {
    DataParallel parallel(net, make_net, devices(2));
    y = parallel(batch_of(6));
  }
  sum(square(y)).backward();
  sum(square(reference(batch_of(6)))).backward();
  expect_close_gradients(net, reference);
}

TEST(DataParallelGraphTest, ItMayStandBetweenOtherLayersAndInsideOfCheckpoints) {
  const auto function = [](const Tensor& x, const Tensor& weight, int) {
    return activation_checkpoint(
        [weight](const std::vector<Tensor>& in) { return tanh(in[0] * weight); }, {x});
  };
  ToldParallel told(2, function);
  nn::Linear before(6, 6);
  const auto loss = [&](auto&& middle) { return sum(square(middle(before(batch_of(5))))); };
  loss(told.parallel).backward();
  const Tensor actual = before.weight.grad(), actual_inner = told.net.weight.grad();
  before.zero_grad();
  told.net.weight.set_grad({});
  before.weight.set_grad({});
  loss([&](const Tensor& x) { return function(x, told.net.weight, 0); }).backward();
  expect_close(actual, before.weight.grad());
  expect_close(actual_inner, told.net.weight.grad());
}

TEST(DataParallelGraphTest, CompletedHooksSeeTheWholeGradientOnce) {
  ToldParallel told(3, [](const Tensor& x, const Tensor& weight, int) { return x * weight; });
  int num_calls = 0;
  register_completed_hook(told.net.weight, [&](const Tensor& grad) {
    ++num_calls;
    expect_same_bits(grad, full({6}, 6));
  });
  sum(told.parallel(ones({6, 6}))).backward();
  EXPECT_EQ(num_calls, 1);
}

// The batch is divided between ranks, and each rank's part between its devices.
TEST(DataParallelGraphTest, RanksMayHaveSeveralDevicesEach) {
  constexpr std::int64_t kSteps = 3, kPart = 5;
  const Device device = default_device();
  auto [reference, start] = twins(make_net);
  nn::SGD one(reference.parameters(), {.learning_rate = 0.1});
  for (std::int64_t step = 0; step < kSteps; ++step) {
    one.zero_grad();
    mean(square(reference(batch_of(2 * kPart)))).backward();
    one.step();
  }
  run_ranks(2, [&, &reference = reference, &start = start](Communicator& comm) {
    const DefaultDeviceGuard guard(device);
    nn::Sequential net = make_net();
    net.load_state_dict(start.state_dict());
    DataParallel parallel(net, make_net, devices(2));
    ShardedOptimizer optimizer(net, comm, [](const std::vector<Tensor>& part) {
      return std::make_unique<nn::SGD>(part, nn::SGDOptions{.learning_rate = 0.1});
    });
    const std::int64_t begin = comm.rank() * kPart;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const Tensor x = view::slice(batch_of(2 * kPart), 0, begin, begin + kPart);
      mean(square(parallel(x))).backward();
      optimizer.step();
    }
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      expect_close(net.parameters()[i], reference.parameters()[i], 64);
  });
}

TEST(DataParallelGraphTest, AReplicaThatFailsIsNamedAndTheNextPassWorks) {
  std::atomic<bool> fails = true;
  std::atomic<int> num_ended = 0;
  ToldParallel told(3, [&](const Tensor& x, const Tensor& weight, int k) {
    if (fails && k > 0) throw DataError("told to fail", Where::current());
    ++num_ended;
    return x * weight;
  });
  const std::string expected =
      concat("DataParallel: replica 1 on ", devices(3)[1], ": told to fail");
  for (int time = 0; time < 2; ++time)
    expect_throws<DataError>([&] { told.parallel(ones({6, 6})); }, expected);
  EXPECT_EQ(num_ended, 2);
  fails = false;
  sum(told.parallel(ones({6, 6}))).backward();
  expect_same_bits(told.net.weight.grad(), full({6}, 6));
}

TEST(DataParallelGraphTest, AFailureInBackwardIsNamedAndTheNextPassWorks) {
  std::atomic<bool> fails = true;
  const auto fail = [](const Tensor&) -> Tensor {
    throw IndexError("told to fail", Where::current());
  };
  ToldParallel told(3, [&](const Tensor& x, const Tensor& weight, int k) {
    const Tensor z = x * 1;
    if (fails && k == 2) register_hook(z, fail);  // the weight already has its gradient then
    return z * weight;
  });
  const Tensor x = ones({6, 6}).set_requires_grad();
  const auto pass = [&] { sum(told.parallel(x)).backward(); };
  expect_throws<IndexError>(pass,
                            concat("DataParallel: replica 2 on ", devices(3)[2], ": told to fail"));
  EXPECT_FALSE(told.net.weight.grad().defined());
  fails = false;
  pass();
  expect_same_bits(told.net.weight.grad(), full({6}, 6));
}

TEST(DataParallelGraphTest, ACallWithinACallIsRefused) {
  DataParallel* outer = nullptr;
  ToldParallel told(2, [&](const Tensor& x, const Tensor& weight, int k) {
    return k == 1 ? (*outer)(x)*weight : x * weight;
  });
  outer = &told.parallel;
  EXPECT_THROW(told.parallel(ones({2, 6})), Error);
  outer = nullptr;
}

TEST(DataParallelGraphTest, CreateGraphIsRefused) {
  nn::Sequential net = make_net();
  DataParallel parallel(net, make_net, devices(2));
  const Tensor y = sum(square(parallel(batch_of(6))));
  expect_throws<AutogradError>([&] { y.backward({}, {.create_graph = true}); },
                               "create_graph must be off");
}

TEST(DataParallelGraphTest, WrongInputsAndOutputsAreRefused) {
  ToldParallel told(2, [](const Tensor& x, const Tensor& weight, int) { return sum(x * weight); });
  expect_throws<ShapeError>([&] { told.parallel(ones({4, 6})); }, "must keep axis 0; got ()");
  expect_throws<ShapeError>([&] { told.parallel(scalar_tensor(1)); }, "an axis to divide");
  expect_throws<DeviceError>(
      [&] {
        told.parallel(ones({4, 6}, {.device = "cpu:7"}));
      },
      "got cpu:7");
  EXPECT_THROW(told.parallel(Tensor()), ValueError);
}

TEST(DataParallelGraphTest, WrongReplicasAndDevicesAreRefused) {
  nn::Linear net(6, 3);
  const auto make_with = [&](auto make) { DataParallel(net, make, devices(2)); };
  expect_throws<ValueError>([&] { make_with([] { return nn::Linear(6, 4); }); },
                            "they differ at \"Linear(6, 3)\" and \"Linear(6, 4)\"");
  expect_throws<ValueError>([&] { make_with([] { return std::unique_ptr<nn::Module>(); }); },
                            "got none");
  expect_throws<ValueError>(
      [&] {
        DataParallel(
            net, [] { return nn::Linear(6, 3); }, std::vector<Device>());
      },
      "at least one device");
  expect_throws<DeviceError>(
      [&] {
        DataParallel(net, [] { return nn::Linear(6, 3); }, {"cpu:5", "cpu:6"});
      },
      "must be on cpu:5");
}

TEST(DataParallelGraphTest, AModuleThatChangedIsRefused) {
  nn::Sequential net = make_net();
  DataParallel parallel(net, make_net, devices(2));
  net.to(DType::float64);
  expect_throws<DTypeError>([&] { parallel(batch_of(4)); }, "must keep its dtypes");
  net.to(DType::float32);
  parallel(batch_of(4));
  net.to("cpu:9");
  expect_throws<DeviceError>([&] { parallel(batch_of(4)); }, "got a tensor on cpu:9");
}

// Two callers run at the same time, each with its own DataParallel.
TEST(DataParallelGraphTest, TwoOfThemMayRunAtTheSameTime) {
  const auto work = [device = default_device()] {
    const DefaultDeviceGuard guard(device);
    auto [reference, net] = twins(make_net);
    DataParallel parallel(net, make_net, devices(2));
    for (int step = 0; step < 3; ++step) {
      sum(square(parallel(batch_of(6)))).backward();
      sum(square(reference(batch_of(6)))).backward();
    }
    expect_close_gradients(net, reference, 32);
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
}

}  // namespace
}  // namespace ringrad
