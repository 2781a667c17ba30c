// Jobs of some ranks save, jobs of other ranks load. The reference is one rank that holds
// everything. Its state, saved in one file, must have the same bits as the folder's, loaded into
// one rank.

#include "ringrad/parallel/train/checkpoint/sharded_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/mesh.h"
#include "ringrad/parallel/train/checkpoint/distributed_checkpoint.h"
#include "ringrad/parallel/train/tensor/tensor_parallel.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::Folder;

// Odd extents, so that parts of arenas cut parameters anywhere.
nn::Sequential make_net() {
  return nn::Sequential(nn::Linear(6, 37), nn::ReLU(), nn::Linear(37, 19), nn::Tanh(),
                        nn::Linear(19, 3));
}

const ShardedOptimizer::MakeOptimizer kAdam = [](const std::vector<Tensor>& p) {
  return std::make_unique<nn::Adam>(p, nn::AdamOptions{.learning_rate = 0.01});
};

// The gradient of the parameter of this name in this step, whichever rank holds it.
Tensor gradient_of(const std::string& name, const Shape& shape, std::int64_t step) {
  Generator generator(std::hash<std::string>{}(name) + static_cast<std::uint64_t>(step));
  return randn(shape, {}, generator);
}

void set_gradients(nn::Module& net, std::int64_t step) {
  for (const auto& [name, parameter] : net.named_parameters())
    parameter.set_grad(gradient_of(name, parameter.shape(), step));
}

void fill(nn::Module& net) {
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : net.named_parameters())
    kernels::copy_(parameter, gradient_of(name, parameter.shape(), -1));
}

// One rank that has the whole net, and Adam.
struct OneRank {
  OneRank() { fill(net); }
  void step(std::int64_t i) {
    set_gradients(net, i);
    adam.step();
  }
  void add_to(ShardedCheckpoint& checkpoint) {
    checkpoint.add("model", net);
    checkpoint.add("optimizer", adam);
  }
  nn::Sequential net = make_net();
  nn::Adam adam{net.parameters(), {.learning_rate = 0.01}};
};

void expect_same_state(const nn::StateDict& actual, const nn::StateDict& expected) {
  nn::check_same_layout("test", actual, expected);
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    expect_same_bits(actual.at(name), tensor);
  }
}

// The folder, seen by one rank, holds the state that one rank would have after so many steps.
void expect_state_after(const Folder& folder, std::int64_t num_steps) {
  OneRank expected, actual;
  for (std::int64_t i = 0; i < num_steps; ++i) expected.step(i);
  run_ranks(1, [&](Communicator& comm) {
    ShardedCheckpoint checkpoint(comm);
    actual.add_to(checkpoint);
    ASSERT_TRUE(checkpoint.load(folder / "run"));
  });
  expect_same_state(actual.net.state_dict(), expected.net.state_dict());
  expect_same_state(actual.adam.state_dict(), expected.adam.state_dict());
}

// --- Sharded optimizer state ---

// One rank of a job with ZeRO-1.
struct Sharded {
  explicit Sharded(Communicator& comm)
      : optimizer((fill(net), net), comm, kAdam), checkpoint(comm) {
    checkpoint.add("model", net);
    checkpoint.add("optimizer", optimizer);
  }
  void step(std::int64_t i) {
    set_gradients(net, i);
    optimizer.step();
  }
  nn::Sequential net = make_net();
  ShardedOptimizer optimizer;
  ShardedCheckpoint checkpoint;
};

// Means of 2^k equal gradients are exact, so steps on these ranks have the bits of one rank's.
TEST(ShardedCheckpointTest, ShardedStateIsCutAnewForOtherRanks) {
  const Folder folder;
  run_ranks(4, [&](Communicator& comm) {
    Sharded job(comm);
    for (int i = 0; i < 3; ++i) job.step(i);
    job.checkpoint.save(folder / "run");
  });
  expect_state_after(folder, 3);
  std::int64_t num_steps = 3;
  for (const int world_size : {2, 3, 5, 1, 4}) {
    SCOPED_TRACE(world_size);
    const bool steps = world_size != 3 && world_size != 5;
    run_ranks(world_size, [&](Communicator& comm) {
      Sharded job(comm);
      ASSERT_TRUE(job.checkpoint.load(folder / "run"));
      if (steps) job.step(num_steps);
      job.checkpoint.save(folder / "run");
    });
    num_steps += steps;
    expect_state_after(folder, num_steps);
  }
}

double magnitude(const ShardedOptimizer& optimizer) {
  double sum = 0;
  for (const auto& [name, tensor] : optimizer.state_dict())
    if (name.ends_with("first_moment"))
      for (const float value : tensor.to_vector<float>()) sum += std::abs(value);
  return sum;
}

TEST(ShardedCheckpointTest, NoRankGetsThePartOfAnother) {
  const Folder folder;
  run_ranks(3, [&](Communicator& comm) {
    double before = 0;
    {
      Sharded job(comm);
      for (int i = 0; i < 3; ++i) job.step(i);
      before = magnitude(job.optimizer);
      job.checkpoint.save(folder / "run");
    }
    Sharded job(comm);
    ASSERT_TRUE(job.checkpoint.load(folder / "run"));
    EXPECT_EQ(magnitude(job.optimizer), before);
  });
}

// A single file for all ranks cannot hold it.
TEST(ShardedCheckpointTest, OneFileForAllRefusesShardedStateByName) {
  const Folder folder;
  run_ranks(3, [&](Communicator& comm) {
    Sharded job(comm);
    job.step(0);
    nn::Checkpoint checkpoint;
    checkpoint.add("model", job.net);
    checkpoint.add("optimizer", *job.optimizer.local_optimizers().front());
    expect_throws<ValueError>(
        [&] { save_checkpoint(checkpoint, folder / "file", comm); },
        "\"optimizer.0.first_moment\" must have equal copies, or be declared as spread over ranks "
        "(sharded_checkpoint.h); contents that differ from the lowest rank's; got ranks 1, 2");
  });
  EXPECT_TRUE(folder.files().empty());
}

TEST(ShardedCheckpointTest, CopiesThatDifferAreRefusedByName) {
  const Folder folder;
  run_ranks(3, [&](Communicator& comm) {
    Tensor x = full({2}, comm.rank() == 1);
    ShardedCheckpoint checkpoint(comm);
    checkpoint.add("x", x);
    expect_throws<ValueError>([&] { checkpoint.save(folder / "run"); }, "\"x\" must have equal");
    if (comm.rank() == 1) zero_(x);
    checkpoint.save(folder / "run");  // the group still works
  });
}

// --- Stages of a pipeline ---

const std::vector<std::vector<std::size_t>> kSplits = {{0}, {0, 2}, {0, 1, 2, 4}};

// One rank of a pipeline: stage s is on rank s.
struct Piped {
  explicit Piped(Communicator& comm)
      : stages(nn::Sequential::split(filled(),
                                     kSplits[static_cast<std::size_t>(comm.world_size() / 2)])),
        own(stages[static_cast<std::size_t>(comm.rank())]),
        checkpoint(comm) {
    if (!own.parameters().empty())
      adam = std::make_unique<nn::Adam>(own.parameters(), nn::AdamOptions{.learning_rate = 0.01});
    checkpoint.add_stages("model", stages, comm);
    if (adam) checkpoint.add("optimizer", *adam);
  }
  static nn::Sequential filled() {
    nn::Sequential net = make_net();
    fill(net);
    return net;
  }
  void step(std::int64_t i) {
    set_gradients(own, i);
    if (adam) adam->step();
  }
  std::vector<nn::Sequential> stages;
  nn::Sequential& own;
  std::unique_ptr<nn::Adam> adam;
  ShardedCheckpoint checkpoint;
};

TEST(ShardedCheckpointTest, APipelineGoesOnWithOtherStages) {
  const Folder folder;
  std::int64_t num_steps = 0;
  for (const int world_size : {4, 2, 1, 4}) {  // one of the four stages has no parameters
    SCOPED_TRACE(world_size);
    run_ranks(world_size, [&](Communicator& comm) {
      Piped job(comm);
      EXPECT_EQ(job.checkpoint.load(folder / "run"), num_steps > 0);
      job.step(num_steps);
      job.checkpoint.save(folder / "run");
    });
    expect_state_after(folder, ++num_steps);
  }
}

// Two pipelines of two stages: copies are compared, and written once.
TEST(ShardedCheckpointTest, ReplicasOfStagesAreComparedAndWrittenOnce) {
  const Folder folder;
  run_ranks(4, [&](Communicator& world) {
    Mesh mesh(world, {{"data", 2}, {"pipeline", 2}});
    std::vector<nn::Sequential> stages = nn::Sequential::split(Piped::filled(), {0, 2});
    const int stage = mesh.coordinate("pipeline");
    nn::Sequential& own = stages[static_cast<std::size_t>(stage)];
    nn::Adam adam(own.parameters(), {.learning_rate = 0.01});
    set_gradients(own, 0);
    adam.step();
    ShardedCheckpoint checkpoint(world);
    checkpoint.add_stages("model", stages, mesh.axis("pipeline"));
    checkpoint.add("optimizer", adam);
    checkpoint.save(folder / "run");
    if (world.rank() == 3) zero_(own.parameters().front().detach());
    expect_throws<ValueError>([&] { checkpoint.save(folder / "run"); },
                              "\"model.2.weight\" must have equal copies");
  });
  expect_state_after(folder, 1);
}

// --- Tensor parallelism ---

struct Split {
  explicit Split(Communicator& comm)
      : net(ColumnParallelLinear(6, 8, comm, {.gather_output = false}), nn::ReLU(),
            RowParallelLinear(8, 5, comm, {.input_is_parallel = true})),
        sgd(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9}),
        checkpoint(comm) {
    checkpoint.add("model", net);
    checkpoint.add("optimizer", sgd);
  }
  // Each part gets its part of the whole gradient.
  void step() {
    net.visit([](const std::string& path, nn::Module& module) {
      if (auto* const layer = dynamic_cast<ParallelLinear*>(&module))
        for (const auto& [name, part] : layer->named_parameters()) {
          const Tensor whole = gradient_of(path + '.' + name, layer->whole_shape(part), 0);
          part.set_grad(kernels::clone(layer->part_of(whole)));
        }
    });
    sgd.step();
  }
  nn::Sequential net;
  nn::SGD sgd;
  ShardedCheckpoint checkpoint;
};

TEST(ShardedCheckpointTest, SplitLayersAreSplitForOtherRanks) {
  const Folder folder;
  nn::StateDict whole;
  for (const int world_size : {4, 2, 1, 4})
    run_ranks(world_size, [&](Communicator& comm) {
      manual_seed(whole.empty() ? 1 : 2);
      Split job(comm);
      EXPECT_EQ(job.checkpoint.load(folder / "run"), !whole.empty());
      const bool is_first = whole.empty();
      comm.barrier();
      if (is_first) job.step();
      const nn::StateDict state = whole_state_dict(job.net);
      if (comm.rank() == 0) {
        if (is_first)
          for (const auto& [name, tensor] : state) whole.emplace(name, kernels::clone(tensor));
        expect_same_state(state, whole);
      }
      job.checkpoint.save(folder / "run");
    });
  // On one rank without parallel layers; after one step, momentum is the gradient.
  nn::Sequential net(nn::Linear(6, 8), nn::ReLU(), nn::Linear(8, 5));
  nn::SGD sgd(net.parameters(), {.momentum = 0.9});
  run_ranks(1, [&](Communicator& comm) {
    ShardedCheckpoint checkpoint(comm);
    checkpoint.add("model", net);
    checkpoint.add("optimizer", sgd);
    ASSERT_TRUE(checkpoint.load(folder / "run"));
  });
  expect_same_state(net.state_dict(), whole);
  const nn::StateDict momentum = sgd.state_dict();
  int i = 0;
  for (const auto& [name, parameter] : net.named_parameters())
    expect_same_bits(momentum.at(concat(i++, ".momentum")),
                     gradient_of(name, parameter.shape(), 0));
}

// --- State of each rank ---

TEST(ShardedCheckpointTest, EachRankGetsItsOwnRandomNumbers) {
  const Folder folder;
  for (const int world_size : {2, 3, 1})
    run_ranks(world_size, [&](Communicator& comm) {
      const auto rank = static_cast<std::uint64_t>(comm.rank());
      Generator random(100 + rank);
      ShardedCheckpoint checkpoint(comm);
      checkpoint.add("random", random);
      if (world_size == 2)
        checkpoint.save(folder / "run");
      else
        random = Generator(200 + rank);
      ASSERT_TRUE(checkpoint.load(folder / "run"));
      EXPECT_EQ(random.seed(), (rank < 2 ? 100 : 200) + rank);
    });
}

TEST(ShardedCheckpointTest, OtherStateOfEachRankIsForAsManyRanks) {
  const Folder folder;
  const auto saved_by = [&](int world_size) {
    run_ranks(world_size, [&](Communicator& comm) {
      Tensor own = full({3}, comm.rank() + 1);
      ShardedCheckpoint checkpoint(comm);
      checkpoint.add_per_rank(
          "own", {[&] {
                    return nn::StateDict{{"", own}};
                  },
                  [&](const nn::StateDict& state, Where) { kernels::copy_(own, state.at("")); }});
      if (!std::filesystem::exists(folder / "run")) {
        comm.barrier();
        checkpoint.save(folder / "run");
        zero_(own);
      }
      comm.barrier();
      if (world_size == 2) {
        EXPECT_TRUE(checkpoint.load(folder / "run"));
        expect_same_bits(own, full({3}, comm.rank() + 1));
      } else {
        expect_throws<ShapeError>([&] { checkpoint.load(folder / "run"); },
                                  "own must be (3, 3), a row for each rank; got (2, 3)");
      }
    });
  };
  saved_by(2);
  saved_by(3);
}

// Buffers differ until the next forward pass of DistributedDataParallel, which takes rank 0's.
TEST(ShardedCheckpointTest, BuffersAreThoseOfTheLowestRank) {
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    nn::BatchNorm1d norm(2);
    for (const auto& [name, buffer] : norm.named_buffers())
      if (is_floating(buffer.dtype())) kernels::copy_(buffer, full({2}, comm.rank() + 5));
    ShardedCheckpoint checkpoint(comm);
    checkpoint.add("norm", norm);
    checkpoint.save(folder / "run");
    ASSERT_TRUE(checkpoint.load(folder / "run"));
    expect_same_bits(norm.state_dict().at("running_mean"), full({2}, 5));
  });
}

TEST(ShardedCheckpointTest, OptimizersNeedTheModulesOfTheirParameters) {
  run_ranks(1, [](Communicator& comm) {
    OneRank job;
    ShardedCheckpoint checkpoint(comm);
    expect_throws<ValueError>([&] { checkpoint.add("optimizer", job.adam); },
                              "must be added before the optimizer; got \"optimizer\"");
  });
}

}  // namespace
}  // namespace ringrad
