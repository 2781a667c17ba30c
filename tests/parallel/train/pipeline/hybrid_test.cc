// Replicas of pipelines: n data parallel times p stages, compared with one rank that has the whole
// model and the whole batch.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/train/pipeline/piped_model.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"

namespace ringrad {
namespace {

using namespace ringrad::testing;

constexpr std::int64_t kGlobalBatch = 32;
constexpr int kSteps = 3;

struct Shape2 {
  int data, pipeline;
};

// The part of the batch that a replica has.
LabelledBatch part_of(const LabelledBatch& batch, const Communicator& replicas) {
  const std::int64_t share = kGlobalBatch / replicas.world_size(), begin = replicas.rank() * share;
  return {slice(batch.x, 0, begin, begin + share), slice(batch.y, 0, begin, begin + share)};
}

// The whole model's parameters after some steps of SGD with momentum.
nn::StateDict reference() {
  nn::Sequential net = deep_mlp();
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    accumulate(net, mlp_batch(kGlobalBatch, step), 1);
    optimizer.step();
  }
  nn::StateDict state = net.state_dict();
  for (auto& [name, tensor] : state) tensor = clone(tensor.detach());
  return state;
}

// Trains `kSteps` steps; `sharded`: the optimizer's state is divided among the replicas.
void expect_one_ranks_numbers(Communicator& comm, Shape2 mesh, const PipelinePlan& plan,
                              bool sharded) {
  const auto pipeline_comm = comm.split(comm.rank() / mesh.pipeline),
             replicas = comm.split(comm.rank() % mesh.pipeline);
  auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, plan.num_stages));
  PipelineOptions options;
  if (!sharded) options.replicas = replicas.get();
  Pipeline pipeline(stages, *pipeline_comm, plan, cross_entropy_loss, options);
  nn::Sequential& own = stages[static_cast<std::size_t>(pipeline_comm->rank())];
  constexpr nn::SGDOptions kSgd{.learning_rate = 0.1, .momentum = 0.9};
  std::unique_ptr<nn::SGD> everywhere;
  std::unique_ptr<ShardedOptimizer> shards;
  if (sharded)
    shards = std::make_unique<ShardedOptimizer>(own, *replicas, [&](const auto& parameters) {
      return std::make_unique<nn::SGD>(parameters, kSgd);
    });
  else
    everywhere = std::make_unique<nn::SGD>(pipeline.parameters(), kSgd);

  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const LabelledBatch part = part_of(mlp_batch(kGlobalBatch, step), *replicas);
    if (sharded)
      shards->zero_grad();
    else
      everywhere->zero_grad();
    pipeline.train_step(part.x, part.y);
    if (sharded)
      shards->step();
    else
      everywhere->step();
    for (int s = pipeline_comm->rank(); s < plan.num_stages; s += mesh.pipeline)
      EXPECT_TRUE(replicas_identical(stages[static_cast<std::size_t>(s)], *replicas));
  }
  const nn::StateDict expected = reference();
  for (int s = pipeline_comm->rank(); s < plan.num_stages; s += mesh.pipeline)
    for (const auto& [name, parameter] : stages[static_cast<std::size_t>(s)].named_parameters())
      expect_close(parameter.detach(), expected.at(name), 64);
}

TEST(HybridTest, ComputesWhatOneRankDoes) {
  for (const Shape2 mesh : {Shape2{2, 2}, {2, 4}, {4, 2}})
    for (const char* schedule : {"gpipe", "1f1b", "zero_bubble"}) {
      SCOPED_TRACE(::testing::Message() << mesh.data << " x " << mesh.pipeline << ' ' << schedule);
      run_ranks(mesh.data * mesh.pipeline, [&](Communicator& comm) {
        expect_one_ranks_numbers(comm, mesh, make_pipeline_plan(schedule, mesh.pipeline, 1, 4),
                                 false);
      });
    }
}

TEST(HybridTest, SeveralStagesPerRankGiveTheSameNumbers) {
  run_ranks(4, [&](Communicator& comm) {
    expect_one_ranks_numbers(comm, {2, 2}, interleaved(2, 3, 4), false);
  });
}

TEST(HybridTest, GpusGiveTheSameNumbers) {
  if (num_gpus() == 0) GTEST_SKIP();
  run_ranks(4, [&](Communicator& comm) {
    const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank() % num_cuda_devices()));
    expect_one_ranks_numbers(comm, {2, 2}, zero_bubble(2, 2), false);
  });
}

TEST(HybridTest, ShardedOptimizerStateGivesTheSameNumbers) {
  for (const Shape2 mesh : {Shape2{2, 2}, {4, 2}})
    run_ranks(mesh.data * mesh.pipeline, [&](Communicator& comm) {
      expect_one_ranks_numbers(comm, mesh, one_forward_one_backward(mesh.pipeline, 4), true);
    });
}

// The replicas of a rank's stage get the same gradients, whichever parameters the passes reached.
struct Gate : nn::Module {
  explicit Gate(std::function<bool(int)> is_open) : opens(std::move(is_open)) {}
  Tensor forward(const Tensor& x, Where at) override {
    return opens(num_calls++) ? linear(x, at) : x;
  }
  nn::Linear& linear = child("linear", nn::Linear(6, 6));
  std::function<bool(int)> opens;
  int num_calls = 0;
};

TEST(HybridTest, GradientsAreAveragedIfTheLastMicroBatchReachesNone) {
  // Leaves it out on all replicas, then on one.
  for (const bool on_all : {true, false})
    run_ranks(4, [&](Communicator& comm) {
      const auto line = comm.split(comm.rank() / 2), replicas = comm.split(comm.rank() % 2);
      manual_seed(1);
      Gate gate([&](int call) { return call < 3 || !(on_all || replicas->rank() == 1); });
      nn::Linear last(6, 3);
      Pipeline pipeline({&gate, &last}, *line, gpipe(2, 4), cross_entropy_loss,
                        {.replicas = replicas.get()});
      const LabelledBatch batch = mlp_batch(8, static_cast<std::uint64_t>(replicas->rank()));
      pipeline.train_step(batch.x, batch.y);
      const Tensor own = line->rank() == 0 ? gate.linear.weight.grad() : last.weight.grad();
      const Tensor first = clone(own);
      replicas->broadcast(first);
      expect_same_bits(own, first);
    });
}

TEST(HybridTest, ReplicasHaveOneSetOfRunningStatistics) {
  run_ranks_on_devices(4, [](Communicator& comm) {
    const auto line = comm.split(comm.rank() / 2), replicas = comm.split(comm.rank() % 2);
    manual_seed(static_cast<std::uint64_t>(comm.rank()));  // the first replica's values must win
    nn::Sequential first(nn::Linear(6, 8), nn::BatchNorm1d(8)), last(nn::Linear(8, 3));
    Pipeline pipeline({&first, &last}, *line, gpipe(2, 2), cross_entropy_loss,
                      {.replicas = replicas.get()});
    for (int step = 0; step < 2; ++step) {
      const auto seed = static_cast<std::uint64_t>(10 * step + replicas->rank());
      const LabelledBatch batch = mlp_batch(8, seed);
      pipeline.train_step(batch.x, batch.y);
    }
    nn::Sequential& own = line->rank() == 0 ? first : last;
    EXPECT_EQ(replicas_identical(own, *replicas),
              line->rank() == 1);  // each has its own last batch
    pipeline.sync_buffers();
    EXPECT_TRUE(replicas_identical(own, *replicas));
  });
}

// A part of a stage, or all of it.
TEST(HybridTest, WhatIsTrainedLaterIsRefused) {
  for (const bool all : {false, true}) {
    std::vector<std::string> errors(
        2);  // of the ranks; the first error ends the other rank wherever it is
    run_ranks(2, [&](Communicator& comm) {
      const auto line = comm.split(comm.rank());
      nn::Linear layer(6, 3);
      layer.bias.set_requires_grad(false);
      layer.weight.set_requires_grad(!all);
      try {
        Pipeline pipeline({&layer}, *line, gpipe(1, 2), cross_entropy_loss, {.replicas = &comm});
        layer.bias.set_requires_grad();
        const LabelledBatch batch = mlp_batch(4);
        pipeline.train_step(batch.x, batch.y);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(comm.rank())] = error.what();
      }
    });
    for (const std::string& error : errors)
      EXPECT_NE(error.find(all ? "a stage that was frozen" : "a parameter that was frozen"),
                std::string::npos)
          << error;
  }
}

TEST(HybridTest, ATieThatIsTrainedLaterIsRefused) {
  std::vector<std::string> errors(2);
  run_ranks(2, [&](Communicator& comm) {
    nn::Sequential first(nn::Linear(6, 6)), last(nn::Linear(6, 6));
    std::vector<nn::Module*> stages = {&first, &last};
    for (nn::Module* stage : stages) stage->parameters()[0].set_requires_grad(false);
    try {
      Pipeline pipeline(stages, comm, gpipe(2, 2), cross_entropy_loss,
                        {.tied = {{{0, "0.weight"}, {1, "0.weight"}}}});
      for (nn::Module* stage : stages) stage->parameters()[0].set_requires_grad();
      const LabelledBatch batch = mlp_batch(4);
      pipeline.train_step(batch.x, batch.y);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("got one of shape (6, 6) that was frozen"), std::string::npos) << error;
}

TEST(HybridTest, GradientsAreReducedOnceAStepInTheStagesLastBackwardPass) {
  run_ranks(4, [&](Communicator& comm) {
    const auto pipeline_comm = comm.split(comm.rank() / 2), replicas = comm.split(comm.rank() % 2);
    auto stages = nn::Sequential::split(deep_mlp(), {0, 6});
    Pipeline pipeline(stages, *pipeline_comm, one_forward_one_backward(2, 4), cross_entropy_loss,
                      {.replicas = replicas.get()});
    const auto num_all_reduces = [&] {
      int count = 0;
      for (const FlightRecord& record : replicas->flight().records())
        count += record.call.op == CollectiveOp::all_reduce &&
                 record.call.dtype == DType::float32;  // not the presence of gradients
      return count;
    };
    const LabelledBatch batch = mlp_batch(8);
    pipeline.train_step(batch.x, batch.y);  // the first one also agrees on the order of buckets
    pipeline.train_step(batch.x, batch.y);
    const int before = num_all_reduces();
    pipeline.train_step(batch.x, batch.y);
    EXPECT_EQ(num_all_reduces() - before, 1);
  });
}

}  // namespace
}  // namespace ringrad
