// Ranks are threads; the reference is one rank on the whole batch.

#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

#include <gtest/gtest.h>

#include <array>
#include <mutex>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_throws;

constexpr std::int64_t kGlobalBatch = 24;

nn::Sequential make_net() {
  return nn::Sequential(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 16), nn::Tanh(),
                        nn::Linear(16, 3));
}

struct Batch {
  Tensor x, y;
};

Batch global_batch(std::uint64_t step) {
  Generator generator(100 + step);
  return {randn({kGlobalBatch, 6}, {}, generator), randint(0, 3, {kGlobalBatch}, generator)};
}

Tensor part_of(const Tensor& x, const Communicator& comm) {
  const std::int64_t share = kGlobalBatch / comm.world_size();
  return view::slice(x, 0, comm.rank() * share, (comm.rank() + 1) * share);
}

// Parameters after some steps of `world_size` ranks, as rank 0 holds them.
std::vector<Tensor> train(int world_size, const DistributedDataParallelOptions& options) {
  std::vector<Tensor> result;
  run_ranks(world_size, [&](Communicator& comm) {
    manual_seed(static_cast<std::uint64_t>(comm.rank()) + 1);  // rank 0's values must win
    nn::Sequential net = make_net();
    DistributedDataParallel replica(net, comm, options);
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Batch batch = global_batch(step);
      optimizer.zero_grad();
      cross_entropy(replica(part_of(batch.x, comm)), part_of(batch.y, comm)).backward();
      optimizer.step();
      EXPECT_TRUE(replicas_identical(net, comm));
    }
    if (comm.rank() == 0)
      for (const Tensor& parameter : net.parameters()) result.push_back(clone(parameter.detach()));
  });
  return result;
}

TEST(DistributedDataParallelTest, RanksComputeWhatOneRankComputesOnTheGlobalBatch) {
  const auto reference = train(1, {});
  for (const int world_size : {2, 3, 4, 8}) {
    SCOPED_TRACE(world_size);
    const auto parameters = train(world_size, {});
    for (std::size_t i = 0; i < reference.size(); ++i)
      expect_close(parameters[i], reference[i], 64);
  }
}

// Sums are canonical: the cut of gradients into buckets changes no bit.
TEST(DistributedDataParallelTest, BucketsChangeNoBit) {
  for (const int world_size : {2, 3, 4}) {
    const auto reference = train(world_size, {});
    for (const std::int64_t bucket_bytes : {1, 100, 1000}) {
      const auto parameters = train(world_size, {.bucket_bytes = bucket_bytes});
      for (std::size_t i = 0; i < reference.size(); ++i)
        ringrad::testing::expect_same_bits(parameters[i], reference[i]);
    }
  }
}

TEST(DistributedDataParallelTest, BucketsFollowTheirSize) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net();
    EXPECT_EQ(DistributedDataParallel(net, comm, {.bucket_bytes = 1}).num_buckets(), 6u);
    EXPECT_EQ(DistributedDataParallel(net, comm).num_buckets(), 1u);
  });
}

TEST(DistributedDataParallelTest, BatchNormBuffersFollowRankZero) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = nn::convnet({.height = 8, .width = 8});
    DistributedDataParallel replica(net, comm);
    Generator generator(static_cast<std::uint64_t>(comm.rank()));
    replica(randn({4, 1, 8, 8}, {}, generator));
    EXPECT_FALSE(replicas_identical(net, comm)) << "running statistics saw different images";
    replica.sync_buffers();
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

// Rank 1's loss does not reach the second layer; rank 0's does.
TEST(DistributedDataParallelTest, ParametersUnusedOnOneRankCountAsZeroThere) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear first(2, 2), second(2, 2);
    struct Pair : nn::Module {
      Pair(nn::Linear& a, nn::Linear& b) {
        parameter("a", a.weight);
        parameter("b", b.weight);
      }
    } pair(first, second);
    DistributedDataParallel replica(pair, comm, {.bucket_bytes = 1});
    const Tensor hidden = first(ones({1, 2}));
    sum(comm.rank() == 0 ? second(hidden.detach()) + hidden : hidden).backward();
    ASSERT_TRUE(second.weight.grad().defined());
    const auto halved = second.weight.grad().to_vector<float>();
    const auto expected = hidden.to_vector<float>();
    EXPECT_FLOAT_EQ(halved[0], expected[0] / 2);
    EXPECT_FLOAT_EQ(halved[1], expected[1] / 2);
  });
}

TEST(DistributedDataParallelTest, AFailedBackwardDoesNotSpoilTheNext) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net();
    DistributedDataParallel replica(net, comm, {.bucket_bytes = 64});
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
    const Batch batch = global_batch(0);
    const auto loss = [&](const Tensor& x) {
      return cross_entropy(replica(x), part_of(batch.y, comm));
    };
    const Tensor x = part_of(batch.x, comm).detach();
    const Tensor poisoned = x.detach().set_requires_grad() * 1;
    register_hook(poisoned, [](const Tensor&) -> Tensor {
      throw ValueError("told to fail", Where::current());
    });
    EXPECT_THROW(loss(poisoned).backward(), ValueError);
    optimizer.zero_grad();
    loss(x).backward();
    optimizer.step();
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

TEST(DistributedDataParallelTest, GradientsAccumulateOverTwoBackwardPasses) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net();
    DistributedDataParallel replica(net, comm);
    const Batch batch = global_batch(0);
    const auto backward = [&] {
      cross_entropy(replica(part_of(batch.x, comm)), part_of(batch.y, comm)).backward();
    };
    net.zero_grad();
    backward();
    const Tensor once = net.parameters().front().grad() * 2;
    backward();
    expect_close(net.parameters().front().grad(), once);
  });
}

// Two parts of the batch, of which only the second is reduced, give the gradients of the whole
// batch.
TEST(DistributedDataParallelTest, WithoutSyncEachRankAddsUpItsOwnAndTheNextPassReducesAll) {
  for (const int world_size : {1, 2, 4}) {
    run_ranks(world_size, [](Communicator& comm) {
      const Batch batch = global_batch(0);
      const Tensor x = part_of(batch.x, comm), y = part_of(batch.y, comm);
      const std::int64_t half = x.size(0) / 2;
      const auto loss = [&](DistributedDataParallel& replica, std::int64_t begin,
                            std::int64_t end) {
        return cross_entropy(replica(view::slice(x, 0, begin, end)), view::slice(y, 0, begin, end));
      };
      manual_seed(1);
      nn::Sequential whole_net = make_net(), net = make_net();
      net.load_state_dict(whole_net.state_dict());
      DistributedDataParallel whole(whole_net, comm), replica(net, comm, {.bucket_bytes = 64});
      loss(whole, 0, 2 * half).backward();
      {
        const DistributedDataParallel::NoSync alone(replica);
        const std::size_t num_calls = comm.flight().records().size();
        (loss(replica, 0, half) * 0.5).backward();
        EXPECT_EQ(comm.flight().records().size(), num_calls);
      }
      (loss(replica, half, 2 * half) * 0.5).backward();
      for (std::size_t i = 0; i < net.parameters().size(); ++i)
        expect_close(net.parameters()[i].grad(), whole_net.parameters()[i].grad(), 64);
    });
  }
}

TEST(DistributedDataParallelTest, CreateGraphIsRefused) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net();
    DistributedDataParallel replica(net, comm);
    const Batch batch = global_batch(0);
    const Tensor loss = cross_entropy(replica(part_of(batch.x, comm)), part_of(batch.y, comm));
    EXPECT_THROW(loss.backward({}, {.create_graph = true}), AutogradError);
  });
}

TEST(DistributedDataParallelTest, DifferentModelsAreNamed) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          nn::Linear net(4, comm.rank() == 2 ? 5 : 3);
          DistributedDataParallel replica(net, comm);
        });
      },
      "different on rank 2");
}

TEST(DistributedDataParallelTest, FailureOfOneRankEndsAllOfThem) {
  expect_throws<ValueError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          nn::Sequential net = make_net();
          DistributedDataParallel replica(net, comm);
          const Batch batch = global_batch(0);
          for (int step = 0;; ++step) {
            if (step == 2 && comm.rank() == 1) throw ValueError("told to fail", Where::current());
            cross_entropy(replica(part_of(batch.x, comm)), part_of(batch.y, comm)).backward();
          }
        });
      },
      "rank 1: told to fail");
}

// An operator that fails in backward on rank 1 alone, in the second pass.
TEST(DistributedDataParallelTest, AFailureInBackwardOfOneRankIsToldToAll) {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    std::array<std::string, 3> errors;
    run_ranks(3, [&](Communicator& comm) {
      nn::Sequential net = make_net();
      DistributedDataParallel replica(net, comm, {.bucket_bytes = 100, .overlap = overlap});
      const Batch batch = global_batch(0);
      const auto pass = [&](bool fails) {
        const Tensor y = replica(part_of(batch.x, comm)), z = clone(y.detach());
        record("fragile", Where::current(), z, {&y}, [fails](BackwardContext& context) {
          if (fails) throw ValueError("no way back", context.where());
          context.set(0, context.grad_output());
        });
        cross_entropy(z, part_of(batch.y, comm)).backward();
      };
      pass(false);
      comm.barrier();  // no rank is still in the first pass
      try {
        pass(comm.rank() == 1);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(comm.rank())] = error.what();
        comm.abort(std::string(error.message()));
      }
    });
    EXPECT_NE(errors[1].find("no way back"), std::string::npos) << errors[1];
    for (const int rank : {0, 2}) {
      const std::string& text = errors[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(text.starts_with("all_reduce(mean, float32, ")) << text;
      EXPECT_NE(text.find(concat(" on rank ", rank, ": the group must be whole; got a failure of ",
                                 "rank 1: no way back")),
                std::string::npos)
          << text;
    }
  }
}

// Trains for some steps, with `disturb` before each, and expects equal parameters on all ranks that
// differ from those at the start.
template <class Disturb>
void expect_replicas_stay_equal(Disturb disturb) {
  run_ranks(2, [&](Communicator& comm) {
    nn::Sequential net = make_net();
    DistributedDataParallel replica(net, comm);
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
    const std::vector<float> start = net.parameters().front().to_vector<float>();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Batch batch = global_batch(step);
      optimizer.zero_grad();
      disturb(net);
      cross_entropy(replica(part_of(batch.x, comm)), part_of(batch.y, comm)).backward();
      optimizer.step();
    }
    EXPECT_TRUE(replicas_identical(net, comm));
    EXPECT_NE(net.parameters().front().to_vector<float>(), start);
  });
}

TEST(DistributedDataParallelTest, GradientsThatWereDroppedAreReduced) {
  expect_replicas_stay_equal([](nn::Module& net) {
    for (const Tensor& parameter : net.parameters()) parameter.set_grad({});
  });
}

TEST(DistributedDataParallelTest, ParametersThatWereFrozenForAWhileAreReduced) {
  expect_replicas_stay_equal([](nn::Module& net) {
    for (const Tensor& parameter : net.parameters()) parameter.set_requires_grad(false);
    for (const Tensor& parameter : net.parameters()) parameter.set_requires_grad();
  });
}

TEST(DistributedDataParallelTest, AModuleThatMovedIsRefused) {
  expect_throws<AutogradError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          nn::Sequential net = make_net();
          DistributedDataParallel replica(net, comm);
          net.to(DType::float64);
          const Batch batch = global_batch(0);
          const Tensor x = to(part_of(batch.x, comm), DType::float64);
          cross_entropy(replica(x), part_of(batch.y, comm)).backward();
        });
      },
      "must stay where it was packed");
}

TEST(DistributedDataParallelTest, ParametersFrozenBeforeAreEqualAndStayFrozen) {
  run_ranks(2, [](Communicator& comm) {
    manual_seed(static_cast<std::uint64_t>(comm.rank()) + 1);
    nn::Sequential net = make_net();
    const Tensor frozen = net.parameters().front();
    frozen.set_requires_grad(false);
    DistributedDataParallel replica(net, comm);
    EXPECT_TRUE(replicas_identical(net, comm));
    const Batch batch = global_batch(0);
    sum(replica(batch.x)).backward();
    EXPECT_FALSE(frozen.grad().defined());
    frozen.set_requires_grad();
    EXPECT_THROW(replica(batch.x), AutogradError);
  });
}

}  // namespace
}  // namespace ringrad
