// The reference is DistributedDataParallel with an optimizer on every rank: the bits must be the
// same.

#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/schedule.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/parallel/train/common/same_model.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;

using Parameters = std::vector<Tensor>;
using MakeOptimizer = ShardedOptimizer::MakeOptimizer;

const MakeOptimizer kPlain = [](const Parameters& p) {
  return std::make_unique<nn::SGD>(p, nn::SGDOptions{.learning_rate = 1});
};
const MakeOptimizer kMomentum = [](const Parameters& p) {
  return std::make_unique<nn::SGD>(
      p, nn::SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
};
const MakeOptimizer kAdam = [](const Parameters& p) {
  return std::make_unique<nn::Adam>(p, nn::AdamOptions{.learning_rate = 0.01});
};

// Odd extents: parts cut parameters anywhere, and a rest remains.
nn::Sequential make_net() {
  return nn::Sequential(nn::Linear(6, 37), nn::ReLU(), nn::Linear(37, 19), nn::Tanh(),
                        nn::Linear(19, 3));
}

constexpr std::int64_t kBatch = 8;  // of each rank

Tensor loss_of(nn::Module& net, const Communicator& comm, std::int64_t step) {
  Generator generator(static_cast<std::uint64_t>(1000 * step + comm.rank()));
  const Tensor x = randn({kBatch, 6}, {}, generator);
  return cross_entropy(net(x), to(randint(0, 3, {kBatch}, generator), default_device()));
}

void seed(const Communicator& comm) {
  manual_seed(static_cast<std::uint64_t>(comm.rank()) + 1);  // rank 0's values must win
}

void expect_same_parameters(const nn::Module& a, const nn::Module& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    expect_same_bits(a.parameters()[i], b.parameters()[i]);
}

// Trains two models side by side; the second uses a ShardedOptimizer.
void expect_bits_of_replicated(Communicator& comm, const MakeOptimizer& make,
                               nn::Sequential (*make_model)() = make_net, bool grouped = false) {
  seed(comm);
  nn::Sequential reference = make_model(), net = make_model();
  net.load_state_dict(reference.state_dict());
  DistributedDataParallel replica(reference, comm);
  std::unique_ptr<nn::Optimizer> replicated;
  if (grouped)
    replicated = std::make_unique<nn::AdamW>(nn::decay_groups(reference, 0.5));
  else
    replicated = make(reference.parameters());
  ShardedOptimizer sharded(net, comm, make,
                           grouped ? nn::decay_groups(net, 0.5) : nn::ParameterGroups());
  const std::int64_t num_steps = default_device().is_cpu() ? 20 : 3;  // GPUs may be simulated
  const nn::Schedule schedule = nn::warm_up(3, nn::cosine(replicated->learning_rate(), 20));
  for (std::int64_t step = 0; step < num_steps; ++step) {
    replicated->set_learning_rate(schedule(step));
    sharded.set_learning_rate(schedule(step));
    replicated->zero_grad();
    loss_of(reference, comm, step).backward();
    replicated->step();
    loss_of(net, comm, step).backward();
    sharded.step();
  }
  expect_same_parameters(net, reference);
  EXPECT_TRUE(replicas_identical(net, comm));
}

void on_ranks(const std::function<void(Communicator&)>& body) {
  const Device device = default_device();
  for (const int world_size : {1, 2, 3, 4}) {
    SCOPED_TRACE(world_size);
    run_ranks(world_size, [&](Communicator& comm) {
      const DefaultDeviceGuard guard(
          device.is_cpu() ? device : Device(DeviceType::cuda, comm.rank() % num_cuda_devices()));
      body(comm);
    });
  }
}

TEST(ShardedOptimizerDeathTest, ProcessesGiveTheBitsOfReplicatedOptimizers) {
  if (default_device().is_cuda()) GTEST_SKIP() << "GPUs are in use";
  for (const int world_size : {2, 3}) {
    testing::Processes processes(
        world_size,
        [](Store& store, int rank, int size) {
          return join_process_group(store, "test", rank, size, {});
        },
        [](Communicator& comm) -> std::string {
          expect_bits_of_replicated(comm, kAdam);
          return "";
        });
    for (int rank = 0; rank < world_size; ++rank) EXPECT_EQ(processes.wait(rank), 0) << rank;
  }
}

TEST(ShardedOptimizerTest, MomentumGivesTheBitsOfReplicatedOptimizers) {
  on_ranks([](Communicator& comm) { expect_bits_of_replicated(comm, kMomentum); });
}

TEST(ShardedOptimizerTest, AdamGivesTheBitsOfReplicatedOptimizers) {
  on_ranks([](Communicator& comm) { expect_bits_of_replicated(comm, kAdam); });
}

// Parts cut through groups.
TEST(ShardedOptimizerTest, GroupsGiveTheBitsOfReplicatedOptimizers) {
  on_ranks([](Communicator& comm) {
    expect_bits_of_replicated(
        comm, [](const Parameters& p) { return std::make_unique<nn::AdamW>(p); }, make_net, true);
  });
}

TEST(ShardedOptimizerTest, StateIsDividedByTheNumberOfRanks) {
  on_ranks([](Communicator& comm) {
    nn::Sequential net = make_net();
    const auto replicated = kAdam(make_net().parameters());
    const ShardedOptimizer sharded(net, comm, kAdam);
    EXPECT_GE(replicated->state_bytes(), 2 * 4 * net.num_parameters());
    // The rest is less than 64 bytes per rank, of which Adam has two.
    const std::int64_t share = replicated->state_bytes() / comm.world_size();
    EXPECT_GE(sharded.state_bytes(), share);
    EXPECT_LT(sharded.state_bytes(), share + 2 * 64 * comm.world_size());
  });
}

TEST(ShardedOptimizerTest, StepsCostOneReduceScatterAndOneAllGather) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net(nn::Linear(31, 32));  // 1024 elements: no rest
    ShardedOptimizer optimizer(net, comm, kMomentum);
    const auto num_calls = [&] { return comm.flight().records().size(); };
    const std::size_t before = num_calls();
    sum(net(ones({1, 31}))).backward();
    EXPECT_EQ(num_calls(), before);
    optimizer.step();
    const auto records = comm.flight().records();
    ASSERT_EQ(records.size(), before + 3);
    EXPECT_EQ(records[before].call.op, CollectiveOp::reduce_scatter);
    EXPECT_EQ(records[before + 1].call.op, CollectiveOp::all_reduce);  // presence of gradients
    EXPECT_EQ(records[before + 1].call.count, 2);
    EXPECT_EQ(records[before + 2].call.op, CollectiveOp::all_gather);
  });
}

// Its arena has 48 elements: two ranks have 16 each and share 16, four share all.
TEST(ShardedOptimizerTest, ATinyModelIsChangedAlikeOnAllRanks) {
  on_ranks([](Communicator& comm) {
    expect_bits_of_replicated(comm, kMomentum, [] { return nn::Sequential(nn::Linear(6, 3)); });
  });
}

TEST(ShardedOptimizerTest, SeveralDtypesHaveOneArenaEach) {
  struct Mixed : nn::Module {
    Tensor wide = parameter("wide", randn({50}, {.dtype = DType::float64}));
    Tensor narrow = parameter("narrow", randn({70}));
  };
  run_ranks(3, [](Communicator& comm) {
    seed(comm);
    Mixed net;
    ShardedOptimizer optimizer(net, comm, kAdam);
    const Tensor wide = clone(net.wide.detach()), narrow = clone(net.narrow.detach());
    (to(sum(square(net.wide)), DType::float32) + sum(square(net.narrow))).backward();
    optimizer.step();
    EXPECT_TRUE(replicas_identical(net, comm));
    // Adam's first step is the learning rate, against the gradient's sign.
    const auto expect_stepped = [](const Tensor& now, const Tensor& before) {
      const auto a = now.to_vector<double>(), b = before.to_vector<double>();
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_NEAR(a[i] - b[i], b[i] > 0 ? -0.01 : 0.01, 1e-5);
    };
    expect_stepped(net.wide, wide);
    expect_stepped(net.narrow, narrow);
  });
}

TEST(ShardedOptimizerTest, ClippingIsByTheNormOfTheAveragedGradients) {
  on_ranks([](Communicator& comm) {
    seed(comm);
    nn::Sequential reference = make_net(), net = make_net();
    net.load_state_dict(reference.state_dict());
    DistributedDataParallel replica(reference, comm);
    const auto replicated = kMomentum(reference.parameters());
    ShardedOptimizer sharded(net, comm, kMomentum);
    for (std::int64_t step = 0; step < 5; ++step) {
      replicated->zero_grad();
      (loss_of(reference, comm, step) * 100).backward();
      const double expected = nn::clip_grad_norm(replicated->arenas(), 0.5);
      replicated->step();
      (loss_of(net, comm, step) * 100).backward();
      const double norm = sharded.clip_grad_norm(0.5);
      sharded.step();
      EXPECT_GT(norm, 0.5);
      EXPECT_NEAR(norm, expected, 1e-5 * expected);
    }
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      expect_close(net.parameters()[i], reference.parameters()[i], 64);
    EXPECT_TRUE(replicas_identical(net, comm));
    loss_of(net, comm, 9).backward();
    EXPECT_LT(sharded.clip_grad_norm(1e6), 1e6);  // scales nothing
  });
}

TEST(ShardedOptimizerTest, ANormThatIsNotFiniteIsRefusedOnAllRanks) {
  run_ranks(3, [](Communicator& comm) {
    nn::Linear net(64, 4);
    ShardedOptimizer optimizer(net, comm, kPlain);
    const Tensor before = clone(net.weight.detach());
    (sum(net(ones({1, 64}))) * (comm.rank() == 1 ? INFINITY : 1.)).backward();
    EXPECT_THROW(optimizer.clip_grad_norm(1), ValueError);
    EXPECT_THROW(optimizer.clip_grad_norm(0), ValueError);
    optimizer.zero_grad();
    optimizer.step();
    expect_same_bits(net.weight.detach(), before);
  });
}

TEST(ShardedOptimizerTest, GradientsOfSeveralPassesAreAddedUpAndUsedUpByAStep) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(40, 2);
    ShardedOptimizer optimizer(net, comm, kPlain);
    const Tensor before = clone(net.bias.detach());
    for (int pass = 0; pass < 3; ++pass)
      sum(net(ones({1, 40})) * static_cast<double>(comm.rank())).backward();
    optimizer.step();  // 3 passes, ranks 0 and 1
    const Tensor after = clone(net.bias.detach());
    expect_close(after, before - 1.5);
    optimizer.step();
    expect_same_bits(net.bias.detach(), after);
    sum(net(ones({1, 40}))).backward();
    optimizer.zero_grad();
    optimizer.step();
    expect_same_bits(net.bias.detach(), after);
  });
}

// The next pass's gradients are averaged, whoever has cleared the averages.
TEST(ShardedOptimizerTest, AveragesMayBeDroppedInsteadOfAStep) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(40, 2);
    ShardedOptimizer optimizer(net, comm, kPlain);
    const auto pass = [&] {
      sum(net(ones({1, 40})) * static_cast<double>(comm.rank())).backward();
    };
    pass();
    EXPECT_GT(optimizer.clip_grad_norm(1e6), 0);
    EXPECT_THROW(pass(), AutogradError);  // it would add to an average
    const Tensor before = clone(net.bias.detach());
    net.zero_grad();
    pass();
    optimizer.step();
    expect_close(net.bias.detach(), before - 0.5);
    EXPECT_TRUE(replicas_identical(net, comm));
    pass();
    optimizer.average_gradients();
    nn::clear_gradient(net.weight);
    sum(net.weight).backward();
    EXPECT_THROW(optimizer.step(), AutogradError);  // new ones beside averages
    for (const Tensor& parameter : net.parameters())
      parameter.set_grad(full(parameter.shape(), comm.rank()));  // this rank's own again
    optimizer.step();
    expect_close(net.bias.detach(), before - 1.);
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

// Momentum and weight decay would move what is frozen; zero gradients do not keep it.
TEST(ShardedOptimizerTest, FrozenParametersKeepTheirValues) {
  on_ranks([](Communicator& comm) {
    seed(comm);
    nn::Sequential net = make_net();
    const Parameters parameters = net.parameters();
    parameters[0].set_requires_grad(false);
    ShardedOptimizer optimizer(net, comm, kMomentum);
    EXPECT_TRUE(replicas_identical(net, comm));
    const auto step = [&](std::int64_t number) {
      loss_of(net, comm, number).backward();
      optimizer.step();
    };
    step(0);
    parameters[2].set_requires_grad(false);
    const Tensor early = clone(parameters[0].detach()), late = clone(parameters[2].detach()),
                 trained = clone(parameters[4].detach());
    step(1);
    expect_same_bits(parameters[0].detach(), early);
    expect_same_bits(parameters[2].detach(), late);
    EXPECT_NE(parameters[4].to_vector<float>(), trained.to_vector<float>());
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

// A parameter that only rank 1's loss reaches, and one that none reaches.
TEST(ShardedOptimizerTest, RanksWithoutAGradientContributeZeros) {
  struct Three : nn::Module {
    Tensor all = parameter("all", ones({100})), one = parameter("one", ones({100})),
           none = parameter("none", ones({100}));
  };
  run_ranks(2, [](Communicator& comm) {
    Three net;
    ShardedOptimizer optimizer(net, comm, kPlain);
    sum(comm.rank() == 1 ? net.all + net.one : net.all).backward();
    optimizer.step();
    expect_same_bits(net.all.detach(), zeros({100}));
    expect_same_bits(net.one.detach(), full({100}, 0.5));
    expect_same_bits(net.none.detach(), ones({100}));
  });
}

TEST(ShardedOptimizerTest, BuffersAreEqualAtFirstAndWhenAskedFor) {
  run_ranks(2, [](Communicator& comm) {
    seed(comm);
    nn::Sequential net = nn::convnet({.height = 8, .width = 8});
    ShardedOptimizer optimizer(net, comm, kAdam);
    EXPECT_TRUE(replicas_identical(net, comm));
    Generator generator(static_cast<std::uint64_t>(comm.rank()));
    net(randn({4, 1, 8, 8}, {}, generator));
    EXPECT_FALSE(replicas_identical(net, comm));
    broadcast_buffers(net, comm);
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

TEST(ShardedOptimizerTest, ValuesThatAreLoadedLaterCount) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(40, 2);
    ShardedOptimizer optimizer(net, comm, kMomentum);
    net.load_state_dict({{"weight", full({2, 40}, 3)}, {"bias", full({2}, 4)}});
    (sum(net.weight * 0) + sum(net.bias * 0)).backward();
    optimizer.step();
    expect_close(net.bias.detach(), full({2}, 4 - 0.1 * 1e-3 * 4));  // weight decay alone
    expect_close(net.weight.detach(), full({2, 40}, 3 - 0.1 * 1e-3 * 3));
  });
}

TEST(ShardedOptimizerTest, AnotherGoesOnFromItsState) {
  run_ranks(3, [](Communicator& comm) {
    nn::Sequential net = make_net(), other = make_net();
    ShardedOptimizer optimizer(net, comm, kAdam), next(other, comm, kAdam);
    const auto counts_steps = [](const auto& entry) { return entry.first.ends_with(".steps"); };
    const auto step = [&](nn::Sequential& model, ShardedOptimizer& with, std::int64_t number) {
      loss_of(model, comm, number).backward();
      with.step();
    };
    std::int64_t number = 0;
    for (const bool is_of_earlier_version :
         {false, true}) {  // it counted the optimizer's steps alone
      step(net, optimizer, number++);
      other.load_state_dict(net.state_dict());
      nn::StateDict state = optimizer.state_dict();
      if (is_of_earlier_version) std::erase_if(state, counts_steps);
      next.load_state_dict(state);
      step(net, optimizer, number);
      step(other, next, number++);
      expect_same_parameters(net, other);
    }
  });
}

}  // namespace
}  // namespace ringrad
