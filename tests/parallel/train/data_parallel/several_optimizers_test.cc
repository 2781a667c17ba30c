// Several optimizers of one wrapped model, several wrapped models with one optimizer, and views of
// parameters that were there before: what moves parameters must leave all of them right. The
// reference is one device with the whole batch, or separate tensors.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/exponential_moving_average.h"
#include "ringrad/nn/optimizer/muon.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/parallel/train/loose/local_sgd.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;

constexpr int kRanks = 2, kSteps = 3;

nn::Sequential make_net() {
  manual_seed(4);
  return nn::Sequential(nn::Linear(6, 8), nn::Tanh(), nn::Linear(8, 8), nn::Tanh(),
                        nn::Linear(8, 3));
}

Tensor rows(int step, const Communicator* comm) {
  Generator generator(static_cast<std::uint64_t>(step + 1));
  const Tensor x = randn({8, 6}, {}, generator);
  if (!comm) return x;
  const std::int64_t share = 8 / comm->world_size();
  return slice(x, 0, comm->rank() * share, (comm->rank() + 1) * share);
}
Tensor loss_of(const Tensor& y) { return mean(square(y - 1)); }

using Optimizers = std::vector<std::unique_ptr<nn::Optimizer>>;
using MakeOptimizers = std::function<Optimizers(const nn::Sequential& net)>;

Optimizers muon_and_adamw(const nn::Sequential& net) {
  std::vector<Tensor> matrices, others;
  for (const Tensor& parameter : net.parameters())
    (parameter.shape() == Shape{8, 8} ? matrices : others).push_back(parameter);
  Optimizers result;
  result.push_back(std::make_unique<nn::Muon>(matrices, nn::MuonOptions{.dtype = DType::float32}));
  result.push_back(std::make_unique<nn::AdamW>(others, nn::AdamOptions{.learning_rate = 0.01}));
  return result;
}

Optimizers head_alone(const nn::Sequential& net) {
  const std::vector<Tensor> all = net.parameters();
  Optimizers result;
  result.push_back(std::make_unique<nn::SGD>(std::vector<Tensor>{all[4], all[5]},
                                             nn::SGDOptions{.learning_rate = 0.1}));
  return result;
}

Optimizers every_other_one(const nn::Sequential& net) {
  const std::vector<Tensor> all = net.parameters();
  Optimizers result;
  for (const std::size_t first : {1, 0})
    result.push_back(
        std::make_unique<nn::SGD>(std::vector<Tensor>{all[first + 4], all[first], all[first + 2]},
                                  nn::SGDOptions{.learning_rate = 0.1, .momentum = 0.5}));
  return result;
}

using Forward = std::function<Tensor(const Tensor& x)>;

nn::StateDict trained(nn::Sequential& net, const Forward& called, const Optimizers& optimizers,
                      const Communicator* comm) {
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& optimizer : optimizers) optimizer->zero_grad();
    loss_of(called(rows(step, comm))).backward();
    for (const auto& optimizer : optimizers) optimizer->step();
    // Parameters without an optimizer keep their gradients: they are not to add up.
    for (const Tensor& parameter : net.parameters()) nn::clear_gradient(parameter);
  }
  return net.state_dict();
}

void expect_equal(const nn::StateDict& state, const nn::StateDict& expected) {
  for (const auto& [name, tensor] : state) {
    SCOPED_TRACE(name);
    expect_close(tensor.detach(), expected.at(name).detach(), 256);
  }
}

TEST(SeveralOptimizersTest, OfOneReplicatedModelInAnyOrderOfMaking) {
  for (const auto& make : {muon_and_adamw, head_alone, every_other_one})
    for (const bool wraps_first : {true, false}) {
      nn::Sequential alone = make_net();
      const nn::StateDict expected = trained(
          alone, [&](const Tensor& x) { return alone(x); }, make(alone), nullptr);
      run_ranks(kRanks, [&](Communicator& comm) {
        nn::Sequential net = make_net();
        Optimizers optimizers;
        if (!wraps_first) optimizers = make(net);
        DistributedDataParallel model(net, comm);
        if (wraps_first) optimizers = make(net);
        expect_equal(trained(
                         net, [&](const Tensor& x) { return model(x); }, optimizers, &comm),
                     expected);
        EXPECT_TRUE(replicas_identical(net, comm));
      });
    }
}

TEST(SeveralOptimizersTest, OneForTwoWrappedModels) {
  const auto step = [](const Forward& a, const Forward& b, nn::SGD& optimizer,
                       const Communicator* comm) {
    for (int i = 0; i < kSteps; ++i) {
      optimizer.zero_grad();
      (loss_of(a(rows(i, comm))) + loss_of(b(rows(i + 7, comm)))).backward();
      optimizer.step();
    }
  };
  const auto all_of = [](const nn::Module& a, const nn::Module& b) {
    std::vector<Tensor> all = b.parameters();
    for (const Tensor& parameter : a.parameters()) all.push_back(parameter);
    return all;
  };
  nn::Sequential first = make_net(), second = make_net();
  nn::SGD reference(all_of(first, second), {.learning_rate = 0.1, .momentum = 0.9});
  step([&](const Tensor& x) { return first(x); }, [&](const Tensor& x) { return second(x); },
       reference, nullptr);
  for (const bool wraps_first : {true, false})
    run_ranks(kRanks, [&](Communicator& comm) {
      nn::Sequential a = make_net(), b = make_net();
      std::optional<nn::SGD> optimizer;
      const nn::SGDOptions options{.learning_rate = 0.1, .momentum = 0.9};
      if (!wraps_first) optimizer.emplace(all_of(a, b), options);
      DistributedDataParallel replica_a(a, comm), replica_b(b, comm);
      if (wraps_first) optimizer.emplace(all_of(a, b), options);
      step([&](const Tensor& x) { return replica_a(x); },
           [&](const Tensor& x) { return replica_b(x); }, *optimizer, &comm);
      expect_equal(a.state_dict(), first.state_dict());
      expect_equal(b.state_dict(), second.state_dict());
    });
}

// A model and its head, both wrapped: an arena within an arena.
TEST(SeveralOptimizersTest, AWrappedPartOfAWrappedModel) {
  run_ranks(kRanks, [&](Communicator& comm) {
    nn::Sequential net = make_net();
    nn::Linear& head = dynamic_cast<nn::Linear&>(net.layer(4));
    DistributedDataParallel model(net, comm);
    LocalSGD head_average(head, comm, {.period = 1});
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
    nn::ExponentialMovingAverage average(net);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      loss_of(model(rows(step, &comm))).backward();
      optimizer.step();
      head_average.step();
      average.update();
    }
    nn::Sequential alone = make_net();
    nn::SGD reference(alone.parameters(), {.learning_rate = 0.1});
    for (int step = 0; step < kSteps; ++step) {
      reference.zero_grad();
      loss_of(alone(rows(step, nullptr))).backward();
      reference.step();
    }
    expect_equal(net.state_dict(), alone.state_dict());
  });
}

TEST(SeveralOptimizersTest, OneRankMayMakeItsOptimizerBeforeTheWrapper) {
  run_ranks(kRanks, [&](Communicator& comm) {
    nn::Sequential net = make_net();
    std::optional<nn::SGD> optimizer;
    if (comm.rank() == 0) optimizer.emplace(net.parameters());
    DistributedDataParallel model(net, comm);
    if (comm.rank() != 0) optimizer.emplace(net.parameters());
    for (int step = 0; step < kSteps; ++step) {
      optimizer->zero_grad();
      loss_of(model(rows(step, &comm))).backward();
      optimizer->step();
    }
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

TEST(SeveralOptimizersTest, OneRankMayMakeItsOptimizerBeforeAShardedOne) {
  run_ranks(kRanks, [&](Communicator& comm) {
    nn::Sequential net = make_net();
    std::optional<nn::ExponentialMovingAverage> average;
    std::optional<nn::SGD> optimizer;
    if (comm.rank() == 0) average.emplace(net);
    if (comm.rank() == 0) optimizer.emplace(net.parameters());
    ShardedOptimizer sharded(net, comm, [](const auto& parameters) {
      return std::make_unique<nn::SGD>(parameters, nn::SGDOptions{.learning_rate = 0.1});
    });
    for (int step = 0; step < kSteps; ++step) {
      loss_of(net(rows(step, &comm))).backward();
      sharded.step();
    }
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

// Views from before packing, on all ranks or on one only, which then packs nothing else.
TEST(SeveralOptimizersTest, ViewsSeeWhatTrainingWrites) {
  for (const bool on_all : {true, false})
    run_ranks(kRanks, [&](Communicator& comm) {
      nn::Sequential net = make_net(), sharded_net = make_net();
      const bool has_view = on_all || comm.rank() == 1;
      Tensor view, sharded_view;
      if (has_view) view = net.parameters()[2].detach();
      if (has_view) sharded_view = sharded_net.parameters()[3].detach();
      DistributedDataParallel model(net, comm);
      nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
      ShardedOptimizer sharded(sharded_net, comm, [](const auto& parameters) {
        return std::make_unique<nn::SGD>(parameters, nn::SGDOptions{.learning_rate = 0.1});
      });
      for (int step = 0; step < kSteps; ++step) {
        optimizer.zero_grad();
        loss_of(model(rows(step, &comm))).backward();
        optimizer.step();
        loss_of(sharded_net(rows(step, &comm))).backward();
        sharded.step();
      }
      if (has_view) {
        EXPECT_EQ(view.raw_data(), net.parameters()[2].raw_data());
        expect_same_bits(view, net.parameters()[2].detach());
        expect_same_bits(sharded_view, sharded_net.parameters()[3].detach());
      }
      EXPECT_TRUE(replicas_identical(net, comm));
      EXPECT_TRUE(replicas_identical(sharded_net, comm));
      expect_equal(net.state_dict(), sharded_net.state_dict());
    });
}

// What only one rank has: memory of others, for a parameter or a gradient, a view from before an
// optimizer that all have, or an optimizer that packs in another order.
TEST(SeveralOptimizersTest, RanksMayHaveMemoryOfDifferentKinds) {
  using Prepare = std::function<void(nn::Sequential & net, bool is_odd_one)>;
  std::vector<float> theirs;
  std::array<std::optional<nn::SGD>, kRanks> earlier;
  Tensor view;
  const auto foreign = [&] {
    return from_memory(theirs.data(), {8}, {.device = Device()}, nullptr);
  };
  const std::vector<std::pair<const char*, Prepare>> cases{
      {"foreign parameter",
       [&](nn::Sequential& net, bool is_odd_one) {
         if (!is_odd_one) return;
         theirs = net.parameters()[1].to_vector<float>();
         net.parameters()[1].set_data(foreign());
       }},
      {"foreign gradient",
       [&](nn::Sequential& net, bool is_odd_one) {
         earlier[is_odd_one].emplace(net.parameters());
         if (!is_odd_one) return;
         theirs.assign(8, 0.25);
         net.parameters()[3].set_grad(foreign());
       }},
      {"view before an optimizer",
       [&](nn::Sequential& net, bool is_odd_one) {
         if (is_odd_one) view = net.parameters()[2].detach();
         earlier[is_odd_one].emplace(net.parameters());
       }},
      {"another order", [&](nn::Sequential& net, bool is_odd_one) {
         std::vector<Tensor> all = net.parameters();
         std::swap(all[0], all[4]);
         if (is_odd_one) earlier[is_odd_one].emplace(all);
       }}};
  for (const auto& [name, prepare] : cases) {
    SCOPED_TRACE(name);
    run_ranks(kRanks, [&](Communicator& comm) {
      nn::Sequential net = make_net(), alone = make_net();
      prepare(net, comm.rank() == 0);
      DistributedDataParallel model(net, comm);
      nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1}),
          reference(alone.parameters(), {.learning_rate = 0.1});
      for (int step = 0; step < kSteps; ++step) {
        net.zero_grad();
        alone.zero_grad();
        loss_of(model(rows(step, &comm))).backward();
        loss_of(alone(rows(step, nullptr))).backward();
        optimizer.step();
        reference.step();
      }
      EXPECT_TRUE(replicas_identical(net, comm));
      expect_equal(net.state_dict(), alone.state_dict());
      earlier[comm.rank() == 0].reset();
      if (comm.rank() != 0) return;
      if (name == std::string("foreign parameter")) {
        EXPECT_EQ(theirs, net.parameters()[1].to_vector<float>());
      } else if (name == std::string("foreign gradient")) {
        EXPECT_EQ(theirs, std::vector<float>(8, 0.25));
      }
      if (view.defined()) expect_same_bits(std::exchange(view, {}), net.parameters()[2].detach());
    });
  }
}

}  // namespace
}  // namespace ringrad
