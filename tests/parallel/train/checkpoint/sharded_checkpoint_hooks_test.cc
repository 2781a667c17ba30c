// Interrupts ranks that remember something of their own between steps, and compares them bit by bit
// with ranks that were not interrupted.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/checkpoint/sharded_checkpoint.h"
#include "ringrad/parallel/train/data_parallel/communication_hooks.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::Folder;

nn::Sequential make_net() {
  manual_seed(3);
  return nn::Sequential(nn::Linear(6, 16), nn::Tanh(), nn::Linear(16, 3));
}

template <class Model>
Tensor loss_of(Model& model, const Communicator& comm, std::int64_t step) {
  Generator generator(static_cast<std::uint64_t>(100 * step + comm.rank()));
  const Tensor x = randn({4, 6}, {}, generator);
  return cross_entropy(model(x), randint(0, 3, {4}, generator));
}

void expect_same_parameters(const nn::Module& a, const nn::Module& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    expect_same_bits(a.parameters()[i], b.parameters()[i]);
}

// --- Hooks ---

struct Compressed {
  Compressed(Communicator& group, const CommunicationHook& hook) : comm(group) {
    model.set_communication_hook(hook);
    checkpoint.add("model", net);
    checkpoint.add("optimizer", sgd);
    checkpoint.add("hook", hook);
    checkpoint.add("step", step);
  }
  void run(std::int64_t last) {
    for (; step < last; ++step) {
      sgd.zero_grad();
      loss_of(model, comm, step).backward();
      sgd.step();
    }
  }
  Communicator& comm;
  nn::Sequential net = make_net();
  DistributedDataParallel model{net, comm};
  nn::SGD sgd{net.parameters(), {.learning_rate = 0.1, .momentum = 0.9}};
  std::int64_t step = 0;
  ShardedCheckpoint checkpoint{comm};
};

const std::function<CommunicationHook()> kHooks[] = {
    [] { return top_k_compression({.ratio = 0.1}); }, [] { return power_sgd({.rank = 1}); }};

TEST(ShardedCheckpointHooksTest, HooksGoOnWithWhatTheyHaveLeftOut) {
  for (const auto& make_hook : kHooks) {
    const Folder folder;
    run_ranks(3, [&](Communicator& comm) {
      Compressed straight(comm, make_hook());
      straight.run(8);
      Compressed first(comm, make_hook());
      first.run(4);
      first.checkpoint.save(folder / "run");
      Compressed second(comm, make_hook());
      ASSERT_TRUE(second.checkpoint.load(folder / "run"));
      second.run(8);
      expect_same_parameters(second.net, straight.net);
      ASSERT_TRUE(second.checkpoint.load(folder / "run"));  // forgets what came after the save
      second.run(8);
      expect_same_parameters(second.net, straight.net);
    });
  }
}

// Two arenas, whose buckets come in another order after the first pass.
TEST(ShardedCheckpointHooksTest, EachParameterGetsBackWhatWasLeftOfIt) {
  struct Mixed : nn::Module {
    Mixed() { narrow.to(DType::bfloat16); }
    nn::Linear& wide = child("wide", nn::Linear(8, 32));
    nn::Linear& narrow = child("narrow", nn::Linear(8, 32));
    Tensor forward(const Tensor& x, Where) override {
      const Tensor y = to(narrow(to(x, DType::bfloat16)), DType::float32);
      return wide(slice(y, 1, 0, 8)) + y;
    }
  };
  for (const auto& make_hook : kHooks) {
    const Folder folder;
    run_ranks(2, [&](Communicator& comm) {
      manual_seed(1);
      Mixed net;
      DistributedDataParallel model(net, comm);
      const CommunicationHook hook = make_hook();
      model.set_communication_hook(hook);
      ShardedCheckpoint checkpoint(comm);
      checkpoint.add("hook", hook);
      const auto gradients = [&](int step) {
        Generator generator(static_cast<std::uint64_t>(10 * step + comm.rank()));
        net.zero_grad();
        sum(square(model(randn({2, 8}, {}, generator)))).backward();
        std::vector<Tensor> all;
        for (const Tensor& parameter : net.parameters()) all.push_back(clone(parameter.grad()));
        return all;
      };
      for (int step = 0; step < 2; ++step) gradients(step);
      checkpoint.save(folder / "run");
      const std::vector<Tensor> expected = gradients(2);
      ASSERT_TRUE(checkpoint.load(folder / "run"));
      const std::vector<Tensor> again = gradients(2);
      for (std::size_t i = 0; i < again.size(); ++i) expect_same_bits(again[i], expected[i]);
    });
  }
}

// What ranks left out is added to later gradients with weight 1 / n: the mean keeps its sum over n.
TEST(ShardedCheckpointHooksTest, OtherRanksTakeTheMeanOfWhatWasLeftOut) {
  const Folder folder;
  const auto make_left = [](double value) { return nn::StateDict{{"left.0", full({3}, value)}}; };
  run_ranks(4, [&](Communicator& comm) {
    const CommunicationHook hook = top_k_compression();
    state_of(hook)->load(make_left(comm.rank()), Where::current());
    ShardedCheckpoint checkpoint(comm);
    checkpoint.add("hook", hook);
    checkpoint.save(folder / "run");
  });
  for (const int world_size : {1, 2, 4, 5})
    run_ranks(world_size, [&](Communicator& comm) {
      const CommunicationHook hook = top_k_compression();
      ShardedCheckpoint checkpoint(comm);
      checkpoint.add("hook", hook);
      ASSERT_TRUE(checkpoint.load(folder / "run"));
      expect_same_bits(state_of(hook)->state().at("left.0"),
                       full({3}, world_size == 4 ? comm.rank() : 1.5));
    });
}

TEST(ShardedCheckpointHooksTest, MemoryOfOtherGradientsIsRefusedWhenTheyCome) {
  run_ranks(1, [](Communicator& comm) {
    const CommunicationHook hook = top_k_compression();
    state_of(hook)->load({{"left.0.weight", zeros({3})}}, Where::current());
    Compressed job(comm, hook);
    expect_throws<ShapeError>([&] { job.run(1); }, "what was loaded must fit the gradients");
  });
}

// --- LocalSGD ---

struct Local {
  explicit Local(Communicator& group) : comm(group) {
    checkpoint.add_per_rank("model", net);
    checkpoint.add_per_rank("optimizer", sgd);
    checkpoint.add("average", average);
  }
  void run(std::int64_t last) {
    while (average.num_steps() < last) {
      sgd.zero_grad();
      loss_of(net, comm, average.num_steps()).backward();
      sgd.step();
      average.step();
    }
  }
  Communicator& comm;
  nn::Sequential net = make_net();
  LocalSGD average{net, comm, {.period = 3}};
  nn::SGD sgd{net.parameters(), {.learning_rate = 0.1, .momentum = 0.9}};
  ShardedCheckpoint checkpoint{comm};
};

TEST(ShardedCheckpointHooksTest, LocalSgdGoesOnBetweenTwoAverages) {
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    Local straight(comm);
    straight.run(8);
    Local first(comm);
    first.run(4);
    first.checkpoint.save(folder / "run");
    Local second(comm);
    ASSERT_TRUE(second.checkpoint.load(folder / "run"));
    EXPECT_EQ(second.average.num_steps(), 4);
    second.run(8);
    expect_same_parameters(second.net, straight.net);
  });
  run_ranks(3, [&](Communicator& comm) {
    Local other(comm);
    expect_throws<ShapeError>([&] { other.checkpoint.load(folder / "run"); },
                              "a row for each rank");
  });
}

// PowerSGD must refuse the state of top-k.
TEST(ShardedCheckpointHooksTest, AStateThatAHookRefusesChangesNothing) {
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    Compressed first(comm, top_k_compression({.ratio = 0.1}));
    first.run(2);
    first.checkpoint.save(folder / "run");
    Compressed other(comm, power_sgd({.rank = 1}));
    expect_throws<DataError>([&] { other.checkpoint.load(folder / "run"); },
                             "power_sgd: its state must have \"random\"");
    EXPECT_EQ(other.step, 0);
    comm.barrier();  // the group still works
  });
}

// Replicas that differ, but were not added as per-rank state.
TEST(ShardedCheckpointHooksTest, ReplicasBetweenTwoAveragesAreRefusedByName) {
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    Local job(comm);
    job.run(4);
    ShardedCheckpoint checkpoint(comm);
    checkpoint.add("model", job.net);
    expect_throws<ValueError>([&] { checkpoint.save(folder / "run"); },
                              "\"model.0.bias\" must have equal copies");
    job.run(6);  // an average
    checkpoint.save(folder / "run");
  });
}

}  // namespace
}  // namespace ringrad
