// Reducers and graphs: which passes count as one, and which repeat an earlier pass.

#include <gtest/gtest.h>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;

nn::Sequential three_layers() {
  return nn::Sequential(nn::Linear(8, 8), nn::Linear(8, 8), nn::Linear(8, 8));
}

std::vector<Tensor> copies_of_gradients(const nn::Module& net) {
  std::vector<Tensor> result;
  for (const Tensor& parameter : net.parameters())
    result.push_back(kernels::clone(parameter.grad()));
  return result;
}

// Two parts, the second of which need not be used, and may be checkpointed.
struct TwoParts : nn::Module {
  nn::Sequential& first = child("first", three_layers());
  nn::Sequential& second = child("second", three_layers());
  bool uses_second = true, checkpoints = false;

  Tensor forward(const Tensor& x, Where) override {
    const Tensor y = run(first, x);
    return uses_second ? run(second, y) : y;
  }

 private:
  Tensor run(nn::Module& part, const Tensor& x) const {
    if (!checkpoints) return part(x);
    return activation_checkpoint([&](const std::vector<Tensor>& inputs) { return part(inputs[0]); },
                                 {x});
  }
};

TEST(ReducerGraphTest, AStaticGraphMayLeaveParametersOut) {
  for (const int world_size : {1, 2})
    run_ranks(world_size, [](Communicator& comm) {
      TwoParts net;
      net.uses_second = false;
      DistributedDataParallel replica(net, comm, {.static_graph = true});
      for (int pass = 0; pass < 2; ++pass) sum(replica(ones({2, 8}))).backward();
      EXPECT_EQ(replica.summary().num_passes, 2);
    });
}

// Otherwise their contributions to parameters that are not communicated would differ between ranks
// forever.
TEST(ReducerGraphTest, InAStaticGraphPassesWithoutSyncCount) {
  for (const bool comes_first : {true, false})
    expect_throws<AutogradError>(
        [&] {
          run_ranks(2, [&](Communicator& comm) {
            TwoParts net;
            DistributedDataParallel replica(net, comm, {.static_graph = true});
            const auto pass = [&](bool uses_second) {
              net.uses_second = uses_second;
              sum(replica(ones({2, 8}))).backward();
            };
            if (!comes_first) pass(false);
            {
              const DistributedDataParallel::NoSync alone(replica);
              pass(true);
            }
            for (int i = 0; i < 2; ++i) pass(false);
          });
        },
        "with static_graph every pass must reach the same parameters");
}

// Each segment runs a backward pass of its own inside the one that is reduced.
TEST(ReducerGraphTest, CheckpointedSegmentsAreOnePass) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    run_ranks(2, [&](Communicator& comm) {
      TwoParts net;
      net.checkpoints = true;
      DistributedDataParallel replica(
          net, comm,
          {.bucket_bytes = 300, .overlap = overlap, .allow_unused = false, .static_graph = true});
      const Tensor x = full({2, 8}, comm.rank() + 1).set_requires_grad();
      for (int pass = 0; pass < 2; ++pass) {
        net.zero_grad();
        sum(replica(x)).backward();
      }
      EXPECT_EQ(replica.summary().num_passes, 2);
      const std::vector<Tensor> gradients = copies_of_gradients(net);
      net.checkpoints = false;
      net.zero_grad();
      sum(replica(x)).backward();
      for (std::size_t i = 0; i < gradients.size(); ++i)
        expect_same_bits(net.parameters()[i].grad(), gradients[i]);
    });
}

// Like a generator and the critic that trains it.
TEST(ReducerGraphTest, OnePassMayGoThroughTwoModels) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    run_ranks(3, [&](Communicator& comm) {
      nn::Sequential generator = three_layers(), critic = three_layers();
      const DistributedDataParallelOptions options{.bucket_bytes = 1, .overlap = overlap};
      DistributedDataParallel first(generator, comm, options), second(critic, comm, options);
      nn::SGD optimizer(generator.parameters(), {.learning_rate = 0.01}),
          critic_optimizer(critic.parameters(), {.learning_rate = 0.01});
      for (int step = 0; step < 20; ++step) {
        optimizer.zero_grad();
        critic_optimizer.zero_grad();
        mean(square(second(first(full({2, 8}, comm.rank()))))).backward();
        optimizer.step();
        critic_optimizer.step();
      }
      EXPECT_TRUE(replicas_identical(generator, comm));
      EXPECT_TRUE(replicas_identical(critic, comm));
      EXPECT_EQ(first.summary().num_passes, 20);
      EXPECT_EQ(second.summary().num_passes, 20);
    });
}

// The second model lies between the layers of the first, of which rank 1's pass lacks one: the
// second must not be finished on the other rank alone.
TEST(ReducerGraphTest, APassThroughTwoModelsThatLacksAParameterEndsBoth) {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    std::string messages[2];
    run_ranks(2, [&](Communicator& comm) {
      nn::Linear inner(8, 8);
      TwoParts outer;
      const DistributedDataParallel second(inner, comm, {.overlap = overlap});
      const DistributedDataParallel first(
          outer, comm, {.bucket_bytes = 1, .overlap = overlap, .allow_unused = false});
      const auto pass = [&](bool is_whole) {
        const Tensor x = ones({2, 8});
        sum(outer.second(inner(is_whole ? outer.first(x) : x))).backward();
      };
      pass(true);
      if (comm.rank() == 1)
        expect_throws<AutogradError>([&] { pass(false); }, "it did not reach first.0.weight");
      try {
        pass(true);
      } catch (const CollectiveError& error) {
        messages[comm.rank()] = error.what();
      }
    });
    for (const std::string& message : messages) {
      EXPECT_NE(message.find("DistributedDataParallel of TwoParts"), message.npos) << message;
      EXPECT_EQ(message.find("DistributedDataParallel of Linear"), message.npos) << message;
    }
  }
}

TEST(ReducerGraphTest, CheckpointedSegmentsOfAStaticGraphMayShareParameters) {
  struct Twice : nn::Module {
    nn::Linear& layer = child("layer", nn::Linear(8, 8));
    bool checkpoints = true;
    Tensor forward(const Tensor& x, Where) override { return once(once(x)); }
    Tensor once(const Tensor& x) const {
      if (!checkpoints) return layer(x);
      return activation_checkpoint(
          [&](const std::vector<Tensor>& inputs) { return layer(inputs[0]); }, {x});
    }
  };
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    run_ranks(2, [&](Communicator& comm) {
      const auto gradients = [&](bool checkpoints, bool is_static) {
        manual_seed(1);
        Twice net;
        net.checkpoints = checkpoints;
        DistributedDataParallel replica(
            net, comm, {.bucket_bytes = 1, .overlap = overlap, .static_graph = is_static});
        const Tensor x = full({2, 8}, comm.rank() + 1).set_requires_grad();
        for (int pass = 0; pass < 3; ++pass) {
          net.zero_grad();
          sum(replica(x)).backward();
        }
        EXPECT_EQ(replica.summary().num_passes, 3);
        return copies_of_gradients(net);
      };
      const auto expected = gradients(false, false), actual = gradients(true, true);
      for (std::size_t i = 0; i < expected.size(); ++i)
        testing::expect_close(actual[i], expected[i]);
    });
}

TEST(ReducerGraphTest, AModelMayHaveNoParametersAndEmptyBuffers) {
  struct Nothing : nn::Module {
    Tensor forward(const Tensor& x, Where) override { return x; }
  };
  struct Empty : Nothing {
    Tensor none = buffer("none", empty({0}));
  };
  run_ranks(2, [](Communicator& comm) {
    Nothing nothing;
    Empty with_buffer;
    for (nn::Module* net :
         {static_cast<nn::Module*>(&nothing), static_cast<nn::Module*>(&with_buffer)}) {
      DistributedDataParallel replica(*net, comm, {.overlap = Overlap::always});
      EXPECT_EQ(replica(ones({2})).numel(), 2);
      EXPECT_TRUE(replicas_identical(*net, comm));
      EXPECT_EQ(replica.num_buckets(), 0u);
    }
  });
}

// Its columns may lie one after another.
struct Matrix : nn::Module {
  Tensor weight = parameter("weight", randn({3, 5}));
  explicit Matrix(bool by_columns) {
    if (by_columns) weight.set_data(transpose(randn({5, 3}), 0, 1));
  }
};

TEST(ReducerGraphTest, FrozenParametersNeedNotBeContiguous) {
  run_ranks(2, [](Communicator& comm) {
    manual_seed(static_cast<std::uint64_t>(comm.rank()));
    Matrix net(true);
    net.weight.set_requires_grad(false);
    ASSERT_FALSE(net.weight.is_contiguous());
    const DistributedDataParallel replica(net, comm);
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

// Their memory is communicated in its own order.
TEST(ReducerGraphTest, RanksWhoseParametersLieInAnotherOrderAreNamed) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          Matrix net(comm.rank() == 1);
          const DistributedDataParallel replica(net, comm);
        });
      },
      "different on rank 1");
}

TEST(ReducerGraphTest, WhatIsHiddenIsAShare) {
  const auto hidden = [](double communication_s, double exposed_s) {
    CommunicationSummary summary;
    summary.communication_s = communication_s;
    summary.exposed_s = exposed_s;
    return summary.overlap();
  };
  EXPECT_EQ(hidden(4, 1), 0.75);
  EXPECT_EQ(hidden(1, 2), 0) << "as with small buckets, where waking up takes longer";
  EXPECT_EQ(hidden(0, 0), 0);
}

}  // namespace
}  // namespace ringrad
