// What would let replicas drift apart in silence: models that are reduced in another order on some
// ranks, passes that fail on some of them, parameters that are frozen on some of them or added, and
// optimizers that decide by a rank's own loss. All ranks get an error that names it, or compute
// what one rank does.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/concatenate.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/lbfgs.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/parallel/train/data_parallel/sync_batch_norm.h"
#include "ringrad/parallel/train/loose/local_sgd.h"
#include "ringrad/tests/parallel/train/every_stream.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::on_every_stream;

// Calls body on two ranks, and expects of each a CollectiveError that contains the texts.
void expect_on_both(const std::function<void(Communicator& comm)>& body,
                    const std::vector<std::string>& texts) {
  std::string messages[2];
  run_ranks(2, [&](Communicator& comm) {
    try {
      body(comm);
    } catch (const CollectiveError& error) {
      messages[comm.rank()] = error.what();
    }
  });
  for (const std::string& message : messages)
    for (const std::string& text : texts)
      EXPECT_NE(message.find(text), std::string::npos) << message << "\nlacks " << text;
}

std::unique_ptr<nn::Optimizer> sgd(const std::vector<Tensor>& parameters) {
  return std::make_unique<nn::SGD>(parameters, nn::SGDOptions{.learning_rate = 0.1});
}

// --- Models of one group ---

// Two models of equal parameters, whose calls differ in nothing but the model.
struct Pair {
  nn::Linear a{6, 3};
  nn::Sequential b{nn::Linear(6, 3)};
};

std::vector<std::string> both(const std::string& scheme) {
  return {"for the " + scheme + " of Linear(6, 3) at ", "for the " + scheme + " of Sequential at "};
}

TEST(DivergenceTest, ReplicasThatAreReducedInAnotherOrderAreNamed) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    for (const DistributedDataParallelOptions& options :
         {DistributedDataParallelOptions{.overlap = overlap},
          {.overlap = overlap, .allow_unused = false}})
      expect_on_both(
          [&](Communicator& comm) {
            Pair nets;
            DistributedDataParallel a(nets.a, comm, options), b(nets.b, comm, options);
            const Tensor of_a = sum(a(ones({2, 6}))), of_b = sum(b(ones({2, 6})));
            (comm.rank() == 0 ? of_a : of_b).backward();
            (comm.rank() == 0 ? of_b : of_a).backward();
          },
          both("DistributedDataParallel"));
}

TEST(DivergenceTest, ShardedOptimizersThatStepInAnotherOrderAreNamed) {
  expect_on_both(
      [](Communicator& comm) {
        Pair nets;
        ShardedOptimizer a(nets.a, comm, sgd), b(nets.b, comm, sgd);
        (sum(nets.a(ones({2, 6}))) + sum(nets.b(ones({2, 6})))).backward();
        (comm.rank() == 0 ? a : b).step();
        (comm.rank() == 0 ? b : a).step();
      },
      both("ShardedOptimizer"));
}

TEST(DivergenceTest, AveragesThatAreTakenInAnotherOrderAreNamed) {
  expect_on_both(
      [](Communicator& comm) {
        Pair nets;
        LocalSGD a(nets.a, comm, {.period = 1}), b(nets.b, comm, {.period = 1});
        (comm.rank() == 0 ? a : b).step();
        (comm.rank() == 0 ? b : a).step();
      },
      both("LocalSGD"));
}

// Lines are not compared: ranks may well make one call from different lines.
TEST(DivergenceTest, ACallMayComeFromDifferentLines) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = full({2}, comm.rank() + 1.);
    if (comm.rank() == 0)
      comm.all_reduce(x);
    else
      comm.all_reduce(x);
    EXPECT_EQ(x.to_vector<double>(), std::vector<double>(2, 3));
  });
}

// --- Passes that fail ---

// Two layers whose buckets are alike. Backward fails between them while is_bad.
struct Failing {
  Failing() {
    manual_seed(1);
    net.append(nn::Linear(4, 4, false));
    net.append(nn::Linear(4, 4, false));
    register_hook(net.parameters()[0], [this](const Tensor&) -> Tensor {
      if (is_bad) throw ValueError("bad sample", Where::current());
      return {};
    });
  }
  nn::Sequential net;
  bool is_bad = false;
};

// Buckets of the failed pass are still under way when the next pass writes into them.
TEST(DivergenceTest, APassThatFailsLeavesTheNextOneAlone) {
  enum class Next { alone_first, plain, by_module };
  for (const Next next : {Next::alone_first, Next::plain, Next::by_module})
    run_ranks(2, [next](Communicator& comm) {
      Failing failing;
      nn::Sequential& net = failing.net;
      DistributedDataParallel model(
          net, comm, {.bucket_bytes = 1, .overlap = Overlap::always, .broadcast_buffers = false});
      model.set_communication_hook([](const GradientBucket& bucket, CommunicationStream& stream) {
        return stream.run("slow", [gradients = bucket.gradients](Communicator& group) {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          group.all_reduce(gradients, ReduceOp::mean);
        });
      });
      const Tensor x = full({1, 4}, comm.rank() + 1.), last = net.parameters()[1];
      failing.is_bad = true;
      EXPECT_THROW(sum(model(x * 1000.)).backward(), ValueError);
      failing.is_bad = false;
      net.zero_grad();
      if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(90));
      if (next == Next::alone_first) {
        const DistributedDataParallel::NoSync alone(model);
        (sum(model(x)) / 2.).backward();
      }
      const double part = next == Next::alone_first ? 0.5 : 1;
      (sum(next == Next::by_module ? net(x) : model(x)) * part).backward();
      const Tensor expected = grad(sum(net(x)), last);
      comm.all_reduce(expected, ReduceOp::mean);
      testing::expect_close(last.grad(), expected);
    });
}

TEST(DivergenceTest, ARankThatSkipsAPassThatFailedIsNamed) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    expect_on_both(
        [overlap](Communicator& comm) {
          Failing failing;
          DistributedDataParallel model(
              failing.net, comm, {.bucket_bytes = 1, .overlap = overlap, .static_graph = true});
          for (int step = 0; step < 3; ++step) {
            failing.net.zero_grad();
            failing.is_bad = comm.rank() == 1 && step == 1;
            try {
              sum(model(full({1, 4}, comm.rank() + 1.))).backward();
            } catch (const ValueError&) {
            }
          }
        },
        {" for the DistributedDataParallel of Sequential at ",
         " for the other pass of the DistributedDataParallel of Sequential at "});
}

TEST(DivergenceTest, BatchNormsOfDifferentLayersDoNotMix) {
  struct Net : nn::Module {
    nn::BatchNorm1d& a = child("a", nn::BatchNorm1d(3));
    nn::BatchNorm1d& b = child("b", nn::BatchNorm1d(3));
    bool is_bad = false;
    Tensor forward(const Tensor& x, Where where) override {
      const Tensor y = a(x);
      if (is_bad) throw ValueError("bad sample", where);
      return b(y);
    }
  };
  expect_on_both(
      [](Communicator& comm) {
        Net net;
        synchronize_batch_norm(net, comm);
        for (int step = 0; step < 3; ++step) {
          net.is_bad = comm.rank() == 1 && step == 1;
          try {
            net(ones({4, 3}));
          } catch (const ValueError&) {
          }
        }
      },
      {" for the batch norm a of ", " for the batch norm b of "});
}

// --- Frozen and added parameters ---

TEST(DivergenceTest, AParameterThatOneRankFreezesIsNamed) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    expect_on_both(
        [overlap](Communicator& comm) {
          nn::Linear net(6, 3);
          DistributedDataParallel model(net, comm, {.overlap = overlap});
          sum(model(ones({2, 6}))).backward();
          if (comm.rank() == 1) net.bias.set_requires_grad(false);
          sum(model(ones({2, 6}))).backward();
        },
        {"DistributedDataParallel: a parameter must be frozen on all ranks or on none; got bias "
         "frozen on rank 1 alone"});
}

TEST(DivergenceTest, AShardedOptimizerNamesWhatOneRankFreezes) {
  expect_on_both(
      [](Communicator& comm) {
        nn::Linear net(6, 3);
        ShardedOptimizer optimizer(net, comm, sgd);
        if (comm.rank() == 0) net.weight.set_requires_grad(false);
        sum(net(ones({2, 6}))).backward();
        optimizer.step();
      },
      {"ShardedOptimizer: a parameter must be frozen on all ranks or on none; got one of shape (3, "
       "6) frozen on rank 0 alone"});
}

TEST(DivergenceTest, WhatAllRanksFreezeStaysAsItWas) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    nn::Linear net(6, 3);
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
    const Tensor before = clone(net.bias.detach());
    net.bias.set_requires_grad(false);
    sum(model(full({2, 6}, comm.rank() + 1.))).backward();
    optimizer.step();
    testing::expect_same_bits(net.bias.detach(), before);
    EXPECT_EQ(net.weight.grad().to_vector<double>(), std::vector<double>(18, 3));
    EXPECT_TRUE(replicas_identical(net, comm));
    net.bias.set_requires_grad();
    optimizer.zero_grad();
    sum(model(full({2, 6}, comm.rank() + 1.))).backward();
    EXPECT_EQ(net.bias.grad().to_vector<double>(), std::vector<double>(3, 2));
  });
}

// The wrapper need not be called for it to be noticed.
TEST(DivergenceTest, AParameterThatIsTrainedLaterIsRefusedInBackward) {
  run_ranks(1, [](Communicator& comm) {
    nn::Linear net(6, 3);
    net.bias.set_requires_grad(false);
    DistributedDataParallel model(net, comm);
    net.bias.set_requires_grad();
    testing::expect_throws<AutogradError>(
        [&] {
          sum(net(ones({2, 6}))).backward();
        },
        "a parameter that was frozen when it was made");
  });
}

// Each rank would train a layer that is added later by its own gradients.
TEST(DivergenceTest, ALayerThatIsAddedLaterIsRefused) {
  const std::string text =
      "a module must train the parameters that it had when it was made; got one of shape (1, 3)";
  run_ranks(1, [&](Communicator& comm) {
    nn::Sequential net(nn::Linear(6, 3));
    DistributedDataParallel model(net, comm);
    ShardedOptimizer optimizer(net, comm, sgd);
    LocalSGD average(net, comm, {.period = 1});
    net.append(nn::Linear(3, 1));
    testing::expect_throws<AutogradError>([&] { model(ones({2, 6})); }, text);
    testing::expect_throws<AutogradError>([&] { sum(net(ones({2, 6}))).backward(); }, text);
    testing::expect_throws<AutogradError>([&] { optimizer.step(); }, text);
    testing::expect_throws<AutogradError>([&] { average.step(); }, text);
  });
}

// As an adapter that is trained elsewhere. Training it here is refused.
TEST(DivergenceTest, AFrozenLayerMayBeAddedLater) {
  run_ranks(1, [](Communicator& comm) {
    nn::Sequential net(nn::Linear(6, 3));
    DistributedDataParallel model(net, comm);
    ShardedOptimizer optimizer(net, comm, sgd);
    LocalSGD average(net, comm, {.period = 1});
    nn::Linear adapter(3, 1);
    const Tensor weight = adapter.weight;
    for (const Tensor& parameter : adapter.parameters()) parameter.set_requires_grad(false);
    net.append(std::move(adapter));
    sum(model(ones({2, 6}))).backward();
    EXPECT_TRUE(optimizer.parameters()[0].grad().defined());
    optimizer.step();
    EXPECT_TRUE(average.step());
    weight.set_requires_grad();
    testing::expect_throws<AutogradError>([&] { model(ones({2, 6})); }, "that was added since");
  });
}

TEST(DivergenceTest, AShardedOptimizerRefusesWhatIsUnfrozenLater) {
  run_ranks(1, [](Communicator& comm) {
    nn::Linear net(6, 3);
    net.bias.set_requires_grad(false);
    ShardedOptimizer optimizer(net, comm, sgd);
    net.bias.set_requires_grad();
    sum(net(ones({2, 6}))).backward();
    testing::expect_throws<AutogradError>([&] { optimizer.step(); },
                                          "a parameter that was frozen when it was made");
  });
}

// --- Optimizers that compare losses ---

nn::Sequential make_net() {
  manual_seed(3);
  return nn::Sequential(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 1));
}

struct Samples {
  Tensor x, y;
};

Samples samples_of(int rank) {
  Generator generator(static_cast<std::uint64_t>(rank));
  const Tensor x = randn({8, 4}, {}, generator);
  return {x, randn({8, 1}, {}, generator)};
}

TEST(DivergenceTest, LBFGSOfReplicasDecidesByTheAverageLoss) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    const Samples first = samples_of(0), second = samples_of(1);
    const Tensor x = kernels::concatenate(std::vector{first.x, second.x}),
                 y = kernels::concatenate(std::vector{first.y, second.y});
    nn::Sequential whole = make_net(), net = make_net();
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    nn::LBFGS reference(whole.parameters(), {.max_iterations = 4}),
        optimizer(net.parameters(), {.max_iterations = 4});
    const Samples own = samples_of(comm.rank());
    for (int step = 0; step < 3; ++step) {
      const double expected = reference.step([&] { return mse_loss(whole(x), y); });
      const double loss = optimizer.step([&] { return mse_loss(model(own.x), own.y); });
      EXPECT_NEAR(loss, expected, 1e-3 * expected);
      EXPECT_TRUE(replicas_identical(net, comm));
    }
  });
}

}  // namespace
}  // namespace ringrad
