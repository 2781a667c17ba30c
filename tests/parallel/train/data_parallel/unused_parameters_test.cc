// Parameters that a step does not use, on some ranks or on all. Data parallel training must do what
// one process does with the average gradients of parameters that any rank has used, and with no
// other parameters.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;

using MakeOptimizer =
    std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>& parameters)>;

const std::vector<MakeOptimizer>& optimizers() {
  static const std::vector<MakeOptimizer> all{
      [](const std::vector<Tensor>& p) {
        return std::make_unique<nn::SGD>(
            p, nn::SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
      },
      [](const std::vector<Tensor>& p) {
        return std::make_unique<nn::Adam>(
            p, nn::AdamOptions{.learning_rate = 0.1, .weight_decay = 0.1});
      }};
  return all;
}

constexpr std::size_t kParameters = 4;

struct Net : nn::Module {
  Net() {
    for (std::size_t i = 0; i < kParameters; ++i)
      p.push_back(parameter("p" + std::to_string(i), full({100}, static_cast<double>(i + 1))));
  }
  Tensor forward(const Tensor& x, Where = Where::current()) override {
    Tensor y = sum(x);
    for (const std::size_t i : used) y = y + static_cast<double>(i + 1) * sum(p[i]);
    return y;
  }
  std::vector<Tensor> p;
  std::vector<std::size_t> used;
};

// All ranks use parameter 0, rank 1 alone uses 1, and no rank uses 3. In odd steps rank 0 uses 2;
// if the steps differ, no rank then uses 1.
std::vector<std::size_t> used_by(int rank, int step, bool steps_differ) {
  std::vector<std::size_t> used{0};
  const bool is_odd = steps_differ && step % 2 == 1;
  if (rank == 1 && !is_odd) used.push_back(1);
  if (rank == 0 && is_odd) used.push_back(2);
  return used;
}

// The parameters that one process gets from the averages over the ranks.
std::vector<Tensor> expected(const MakeOptimizer& make, int world_size, int steps,
                             bool steps_differ) {
  Net net;
  const auto optimizer = make(net.parameters());
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    std::vector<double> sums(kParameters, 0);
    for (int rank = 0; rank < world_size; ++rank)
      for (const std::size_t i : used_by(rank, step, steps_differ))
        sums[i] += static_cast<double>(i + 1);
    for (std::size_t i = 0; i < kParameters; ++i)
      if (sums[i] > 0) net.p[i].set_grad(full({100}, sums[i] / world_size));
    optimizer->step();
  }
  EXPECT_EQ(net.p[3].to_vector<float>(), std::vector<float>(100, 4)) << "used by nobody";
  return net.p;
}

using Train = std::function<void(Net&, Communicator&, const MakeOptimizer&, int steps)>;

void check(const Train& train, bool steps_differ) {
  for (const int world_size : {1, 2, 3})
    for (const MakeOptimizer& make : optimizers()) {
      const auto wanted = expected(make, world_size, 6, steps_differ);
      run_ranks(world_size, [&](Communicator& comm) {
        Net net;
        train(net, comm, make, 6);
        for (std::size_t i = 0; i < kParameters; ++i) {
          SCOPED_TRACE(concat("parameter ", i, " of rank ", comm.rank(), " of ", world_size));
          expect_close(net.p[i].detach(), wanted[i].detach());
          if (i == 3) expect_same_bits(net.p[i].detach(), wanted[i].detach());
        }
        EXPECT_TRUE(replicas_identical(net, comm));
      });
    }
}

void train_replicated(Net& net, Communicator& comm, const MakeOptimizer& make, int steps,
                      const DistributedDataParallelOptions& options) {
  DistributedDataParallel replica(net, comm, options);
  const auto optimizer = make(net.parameters());
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    net.used = used_by(comm.rank(), step, !options.static_graph);
    replica(zeros({1})).backward();
    optimizer->step();
  }
}

TEST(UnusedParametersTest, ReplicasAverageWhatSomeRanksUsedAndLeaveTheRestAlone) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    check(
        [&](Net& net, Communicator& comm, const MakeOptimizer& make, int steps) {
          train_replicated(net, comm, make, steps, {.bucket_bytes = 500, .overlap = overlap});
        },
        true);
}

TEST(UnusedParametersTest, ReplicasOfAStaticGraphLeaveUnusedParametersAlone) {
  check(
      [](Net& net, Communicator& comm, const MakeOptimizer& make, int steps) {
        train_replicated(net, comm, make, steps, {.bucket_bytes = 500, .static_graph = true});
      },
      false);
}

TEST(UnusedParametersTest, AShardedOptimizerLeavesUnusedParametersAlone) {
  check(
      [](Net& net, Communicator& comm, const MakeOptimizer& make, int steps) {
        ShardedOptimizer optimizer(net, comm, make);
        for (int step = 0; step < steps; ++step) {
          net.used = used_by(comm.rank(), step, true);
          net(zeros({1})).backward();
          if (step == 2) optimizer.clip_grad_norm(1e6);
          optimizer.step();
        }
      },
      true);
}

// Rank 1 uses parameter 1 in the first of two passes only, which is not reduced.
TEST(UnusedParametersTest, PassesThatAreNotReducedCount) {
  run_ranks(2, [](Communicator& comm) {
    Net net;
    DistributedDataParallel replica(net, comm);
    nn::SGD optimizer(net.parameters(), {.learning_rate = 1});
    optimizer.zero_grad();
    {
      const DistributedDataParallel::NoSync guard(replica);
      net.used = used_by(comm.rank(), 0, true);
      replica(zeros({1})).backward();
    }
    net.used = {0};
    replica(zeros({1})).backward();
    optimizer.step();
    expect_close(net.p[0].detach(), full({100}, 1 - 2));
    expect_close(net.p[1].detach(), full({100}, 2 - 1));
    expect_same_bits(net.p[3].detach(), full({100}, 4));
  });
}

// --- Passes that must reach all parameters ---

// Two layers, each in a bucket. A pass reaches a first, and may leave out either.
struct TwoLayers : nn::Module {
  nn::Linear& a = child("a", nn::Linear(4, 4, false));
  nn::Linear& b = child("b", nn::Linear(4, 4, false));
  std::string lacks;
  Tensor forward(const Tensor& x, Where) override {
    if (lacks == "a") return b(x);
    if (lacks == "b") return a(x);
    const Tensor y = b(x) * 2;
    return y + a(x);
  }
};

// The other rank must not step with the gradients of a pass that this one gives up.
TEST(UnusedParametersTest, ARankThatSkipsAPassWithoutAParameterIsNamed) {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    std::string messages[2];
    run_ranks(2, [&](Communicator& comm) {
      TwoLayers net;
      DistributedDataParallel model(net, comm,
                                    {.bucket_bytes = 1, .overlap = overlap, .allow_unused = false});
      const auto pass = [&](const std::string& lacks) {
        net.lacks = lacks;
        sum(model(ones({1, 4}))).backward();
      };
      pass("");
      if (comm.rank() == 1)
        expect_throws<AutogradError>([&] { pass("b"); }, "on rank 1 it did not reach b.weight");
      try {
        pass("");
      } catch (const CollectiveError& error) {
        messages[comm.rank()] = error.what();
      }
    });
    for (const std::string& message : messages)
      EXPECT_NE(message.find(" for the other pass of the DistributedDataParallel of "),
                std::string::npos)
          << message;
  }
}

// Also in the first pass of a static graph, which sends all buckets at its end.
TEST(UnusedParametersTest, APassThatFailsBeforeItsFirstBucketIsReplacedByTheNext) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    for (const bool is_static : {false, true})
      run_ranks(2, [&](Communicator& comm) {
        TwoLayers net;
        DistributedDataParallel model(net, comm,
                                      {.bucket_bytes = 1,
                                       .overlap = overlap,
                                       .allow_unused = false,
                                       .static_graph = is_static});
        const auto pass = [&](double x, const std::string& lacks = {}) {
          net.zero_grad();
          net.lacks = lacks;
          sum(model(full({1, 4}, x))).backward();
        };
        if (!is_static) pass(1);
        if (comm.rank() == 1) {
          EXPECT_THROW(pass(100, "a"), AutogradError);
        }
        for (int step = 0; step < 2; ++step) {
          pass(comm.rank() + 1);
          EXPECT_EQ(net.a.weight.grad().to_vector<double>(), std::vector<double>(16, 1.5));
          EXPECT_EQ(net.b.weight.grad().to_vector<double>(), std::vector<double>(16, 3));
        }
      });
}

// What average_now() sends as the first pass teaches nothing about the parameters to reach.
TEST(UnusedParametersTest, WithoutAllowUnusedAStaticGraphLearnsNoUnusedParameter) {
  run_ranks(2, [](Communicator& comm) {
    TwoLayers net;
    DistributedDataParallel model(net, comm,
                                  {.bucket_bytes = 1, .allow_unused = false, .static_graph = true});
    {
      const DistributedDataParallel::NoSync alone(model);
      net.lacks = "a";
      sum(model(ones({1, 4}))).backward();
    }
    model.average_now();
    net.zero_grad();
    net.lacks = "";
    sum(model(full({1, 4}, comm.rank() + 1.))).backward();
    EXPECT_EQ(net.a.weight.grad().to_vector<double>(), std::vector<double>(16, 1.5));
  });
}

// --- Pipelines ---

struct Stage : nn::Module {
  Tensor forward(const Tensor& x, Where = Where::current()) override {
    return uses_second ? x * first + second : x * first;
  }
  Tensor first = parameter("first", ones({1})), second = parameter("second", full({100}, 3));
  bool uses_second = false;
};

// If tied, both stages have the same second parameter. Returns this rank's two parameters after
// three steps.
std::vector<Tensor> trained_in_pipeline(Communicator& comm, const MakeOptimizer& make, bool is_tied,
                                        bool last_uses_second) {
  std::array<Stage, 2> stages;
  stages[1].uses_second = last_uses_second;
  PipelineOptions options;
  if (is_tied) options.tied = {{{0, "second"}, {1, "second"}}};
  const auto loss = [](const Tensor& y, const Tensor&) { return sum(y); };
  Pipeline pipeline(std::vector<nn::Module*>{&stages[0], &stages[1]}, comm, gpipe(2, 2), loss,
                    options);
  const auto optimizer = make(pipeline.parameters());
  const Tensor x = ones({4, 100});
  for (int step = 0; step < 3; ++step) {
    optimizer->zero_grad();
    pipeline.train_step(x, x);
    EXPECT_GT(pipeline.clip_grad_norm(1e-3), 1e-3);
    optimizer->step();
  }
  const Stage& own = stages[static_cast<std::size_t>(comm.rank())];
  return {own.first.detach(), own.second.detach()};
}

TEST(UnusedParametersTest, APipelineThatClipsLeavesThemAloneAlsoIfTheyAreTied) {
  run_ranks(2, [](Communicator& comm) {
    for (const MakeOptimizer& make : optimizers())
      for (const bool is_tied : {false, true}) {
        const auto trained = trained_in_pipeline(comm, make, is_tied, false);
        EXPECT_NE(trained[0].item<float>(), 1);
        expect_same_bits(trained[1], full({100}, 3));
      }
  });
}

TEST(UnusedParametersTest, ATiedParameterThatOneStageUsesMovesOnBothRanks) {
  run_ranks(2, [](Communicator& comm) {
    for (const MakeOptimizer& make : optimizers()) {
      const Tensor own = trained_in_pipeline(comm, make, true, true)[1];
      const Tensor first = clone(own);
      comm.broadcast(first);
      expect_same_bits(own, first);
      EXPECT_LT(own.to_vector<float>()[0], 3);
    }
  });
}

}  // namespace
}  // namespace ringrad
