// What trains a module in parallel must do what a call of the module does: run the hooks of the
// module and of those below it, and treat its buffers alike, whatever their strides.

#include <gtest/gtest.h>

#include <functional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/residual.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/train/data_parallel/data_parallel.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/parallel/train/loose/local_sgd.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/parallel/train/tensor/branches.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

// y = weight x, elementwise.
struct Scale : nn::Module {
  Tensor weight = parameter("weight", full({2}, 3));
  Tensor forward(const Tensor& x, Where at) override { return mul(x, weight, at); }
};

// The inner module's input is doubled, and the outer module's output tripled: y = 3 (weight 2 x).
void add_hooks(nn::Module& inner, nn::Module& outer) {
  inner.add_forward_pre_hook([](nn::Module&, const Tensor& x) { return 2 * x; });
  outer.add_forward_hook([](nn::Module&, const Tensor&, const Tensor& y) { return 3 * y; });
}

nn::Sequential hooked_net() {
  nn::Sequential net{Scale()};
  add_hooks(net.layer(0), net);
  return net;
}

Tensor sum_of(const Tensor& y, const Tensor&) { return sum(y); }

const Tensor& batch() {
  static const Tensor x = ones({4, 2});
  return x;
}

// Of the sum over four rows of ones, through both hooks.
void expect_gradient(const nn::Module& net, double factor = 1) {
  const Tensor grad = net.parameters()[0].grad();
  ASSERT_TRUE(grad.defined());
  EXPECT_EQ(grad.to_vector<double>(), std::vector<double>(2, 4 * 2 * 3 * factor));
}

TEST(WrappedModuleTest, DistributedDataParallelRunsHooks) {
  for (const int world_size : {1, 2})
    run_ranks(world_size, [](Communicator& comm) {
      nn::Sequential net = hooked_net();
      DistributedDataParallel model(net, comm);
      const Tensor y = model(batch());
      EXPECT_EQ(y.to_vector<double>(), std::vector<double>(8, 3 * 3 * 2));
      sum(y).backward();
      expect_gradient(net);
    });
}

TEST(WrappedModuleTest, PipelinesRunHooksOfStages) {
  for (const bool checkpoints : {false, true})
    run_ranks(2, [checkpoints](Communicator& comm) {
      std::vector<nn::Sequential> stages(2);
      for (nn::Sequential& stage : stages) {
        stage.append(Scale());
        add_hooks(stage.layer(0), stage);
      }
      Pipeline pipeline(stages, comm, gpipe(2, 2), sum_of, {.checkpoint_activations = checkpoints});
      // The loss is the mean of the two micro-batches' sums: half of the whole sum.
      pipeline.train_step(batch(), zeros({4}));
      expect_gradient(stages[static_cast<std::size_t>(comm.rank())], 0.5 * 3 * 2 * 3);
      const Tensor y = pipeline.forward(batch());
      if (comm.rank() == 1) {
        EXPECT_EQ(y.to_vector<double>(), std::vector<double>(8, 18 * 18));
      }
    });
}

TEST(WrappedModuleTest, DataParallelRunsHooksOnItsReplicas) {
  const auto make = [] { return nn::Sequential(Scale()); };
  nn::Sequential net = make();
  DataParallel parallel(net, make, {"cpu", "cpu", "cpu"});
  add_hooks(net.layer(0), net);  // also those that come after the replicas
  const Tensor y = parallel(batch());
  EXPECT_EQ(y.to_vector<double>(), std::vector<double>(8, 18));
  sum(y).backward();
  expect_gradient(net);
}

TEST(WrappedModuleTest, DataParallelKeepsTheHooksThatItsReplicasWereMadeWith) {
  nn::Sequential net = hooked_net();
  DataParallel parallel(net, hooked_net, {"cpu", "cpu"});
  sum(parallel(batch())).backward();
  expect_gradient(net);
  net.add_forward_hook([](nn::Module&, const Tensor&, const Tensor& y) { return 2 * y; });
  expect_throws<ValueError>(
      [&] { parallel(batch()); },
      "DataParallel: hooks must be added by make_replica alike, or to the "
      "module alone; got 2 on the module's Sequential and 1 on the replica's");
}

TEST(WrappedModuleTest, BranchesRunHooks) {
  for (const auto mode : {Branches::Mode::in_turn, Branches::Mode::side_by_side}) {
    Branches branches(Branches::Join::sum, hooked_net(), hooked_net());
    branches.set_mode(mode);
    const Tensor y = branches(batch());
    EXPECT_EQ(y.to_vector<double>(), std::vector<double>(8, 2 * 18));
    sum(y).backward();
    expect_gradient(branches);
  }
}

// A residual block adds and rectifies in the pass of its norms, unless these have hooks.
TEST(WrappedModuleTest, ResidualBlocksRunHooksOfTheirNorms) {
  nn::ResidualBlock block(2, 2, 1);
  block.eval();
  Generator generator(1);
  const Tensor x = randn({1, 2, 3, 3}, {}, generator);
  const Tensor plain = block(x);
  int calls = 0;
  block.visit([&](const std::string&, nn::Module& module) {
    if (dynamic_cast<nn::BatchNorm*>(&module))
      module.add_forward_hook([&calls](nn::Module&, const Tensor&, const Tensor&) {
        ++calls;
        return Tensor();
      });
  });
  testing::expect_close(block(x).detach(), plain.detach());
  EXPECT_EQ(calls, 2);
}

// --- Buffers ---

// Buffers in all shapes of memory: transposed, expanded, every second element, and of numbers that
// have no mean.
struct Odd : nn::Module {
  explicit Odd(double start) : matrix(arange(start, start + 6)) {}
  Tensor forward(const Tensor& x, Where) override { return x * weight; }

  Tensor weight = parameter("weight", ones({2}));
  Tensor matrix;
  Tensor transposed =
      buffer("transposed", view::transpose(view::reshape(clone(matrix), {2, 3}), 0, 1));
  Tensor expanded = buffer("expanded", view::expand(clone(view::slice(matrix, 0, 0, 1)), {2, 3}));
  Tensor strided = buffer("strided", view::slice(clone(matrix), 0, 0, 6, 2));
  Tensor whole =
      buffer("whole", view::transpose(view::reshape(to(matrix, DType::int64), {3, 2}), 0, 1));
};

void expect_buffers(const Odd& odd, double start, double whole_start) {
  const auto from = [](double first, std::vector<double> steps) {
    for (double& step : steps) step += first;
    return steps;
  };
  EXPECT_EQ(odd.transposed.to_vector<double>(), from(start, {0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(odd.expanded.to_vector<double>(), from(start, {0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(odd.strided.to_vector<double>(), from(start, {0, 2, 4}));
  EXPECT_EQ(odd.whole.to_vector<double>(), from(whole_start, {0, 2, 4, 1, 3, 5}));
}

TEST(WrappedModuleTest, EverySchemeSharesBuffersOfAnyStrides) {
  const std::function<void(Odd&, Communicator&)> schemes[] = {
      [](Odd& net, Communicator& comm) {
        DistributedDataParallel model(net, comm);
        model(ones({2}));
      },
      [](Odd& net, Communicator& comm) { LocalSGD average(net, comm); },
      [](Odd& net, Communicator& comm) {
        ShardedOptimizer optimizer(net, comm, [](const std::vector<Tensor>& parameters) {
          return std::make_unique<nn::SGD>(parameters, nn::SGDOptions{.learning_rate = 0.1});
        });
      },
  };
  for (const auto& scheme : schemes)
    run_ranks(2, [&](Communicator& comm) {
      Odd net(10 * (comm.rank() + 1));
      scheme(net, comm);
      expect_buffers(net, 10, 10);
    });
}

// A batch norm in evaluation is saved with its buffers, which then must not count as changed.
nn::Sequential net_with_fixed_norm() {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 3), nn::BatchNorm1d(3), nn::Linear(3, 1));
  net.layer(1).eval();
  return net;
}

TEST(WrappedModuleTest, TwoPassesOfFixedBuffersMayComeBeforeBackward) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = net_with_fixed_norm(), alone = net_with_fixed_norm();
    DistributedDataParallel model(net, comm);
    (sum(model(batch())) - sum(model(batch() * 3))).backward();
    (sum(alone(batch())) - sum(alone(batch() * 3))).backward();
    testing::expect_close(net.parameters()[0].grad(), alone.parameters()[0].grad());
  });
}

TEST(WrappedModuleTest, CheckpointedStagesMayHaveFixedBuffers) {
  run_ranks(1, [](Communicator& comm) {
    nn::Sequential net = net_with_fixed_norm(), alone = net_with_fixed_norm();
    Pipeline pipeline({&net}, comm, gpipe(1, 2), sum_of, {.checkpoint_activations = true});
    pipeline.train_step(batch(), zeros({4}));
    (sum(alone(batch())) / 2).backward();
    testing::expect_close(net.parameters()[0].grad(), alone.parameters()[0].grad());
  });
}

TEST(WrappedModuleTest, LocalSGDAveragesBuffersOfAnyStrides) {
  run_ranks(2, [](Communicator& comm) {
    Odd net(10);
    LocalSGD average(net, comm, {.period = 1});
    Odd other(10 * (comm.rank() + 1));
    for (const auto& [name, value] : other.named_buffers()) {
      const Tensor own = net.state_dict().at(name);
      own.set_data(value);
    }
    average.step();
    expect_buffers(net, 15, 10);
  });
}

}  // namespace
}  // namespace ringrad
