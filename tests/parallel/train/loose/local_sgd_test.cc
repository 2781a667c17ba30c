// Ranks are threads; the reference is DistributedDataParallel.

#include "ringrad/parallel/train/loose/local_sgd.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/captured_step.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"
#include "ringrad/tests/parallel/train/small_training.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::copies_of;
using testing::expect_close;
using testing::expect_throws;
using testing::kMomentumSgd;
using testing::kPlainSgd;
using testing::loss_of;
using testing::run_ranks_on_devices;
using testing::small_net;

constexpr int kSteps = 6;

std::vector<Tensor> train_data_parallel(Communicator& comm, const nn::SGDOptions& sgd) {
  manual_seed(1);
  nn::Sequential net = small_net();
  DistributedDataParallel replica(net, comm);
  nn::SGD optimizer(net.parameters(), sgd);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss_of(net, comm.rank(), step).backward();
    optimizer.step();
  }
  return copies_of(net);
}

// Checks at each step that replicas are identical after an average, and only then.
std::vector<Tensor> train_local(Communicator& comm, const nn::SGDOptions& sgd,
                                const LocalSGDOptions& options) {
  manual_seed(static_cast<std::uint64_t>(comm.rank()) + 1);  // rank 0's values must win
  nn::Sequential net = small_net();
  LocalSGD average(net, comm, options);
  EXPECT_TRUE(replicas_identical(net, comm));
  nn::SGD optimizer(net.parameters(), sgd);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss_of(net, comm.rank(), step).backward();
    optimizer.step();
    const bool has_averaged = average.step();
    EXPECT_EQ(replicas_identical(net, comm), has_averaged);
  }
  average.sync();
  EXPECT_TRUE(replicas_identical(net, comm));
  return copies_of(net);
}

TEST(LocalSGDTest, PeriodOneIsDataParallelTraining) {
  for (const int world_size : {2, 3}) {
    SCOPED_TRACE(world_size);
    run_ranks_on_devices(world_size, [](Communicator& comm) {
      for (const nn::SGDOptions& sgd : {kPlainSgd, kMomentumSgd}) {
        const auto expected = train_data_parallel(comm, sgd);
        const auto parameters = train_local(comm, sgd, {.period = 1});
        for (std::size_t i = 0; i < expected.size(); ++i)
          expect_close(parameters[i], expected[i], 64);
      }
    });
  }
}

TEST(LocalSGDTest, ReplicasAreIdenticalAfterEachAverageAndDifferBetween) {
  for (const int world_size : {2, 4})
    for (const LocalSGDOptions& options :
         {LocalSGDOptions{.period = 4}, {.period = 3, .num_synchronous_steps = 2}})
      run_ranks_on_devices(world_size,
                           [&](Communicator& comm) { train_local(comm, kMomentumSgd, options); });
}

// Compares with the parameters after k steps of each rank alone, averaged by hand.
TEST(LocalSGDTest, AveragesWhatRanksHaveReachedAlone) {
  const auto train_alone = [](int rank) {
    manual_seed(1);
    nn::Sequential net = small_net();
    nn::SGD optimizer(net.parameters(), kPlainSgd);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(net, rank, step).backward();
      optimizer.step();
    }
    return copies_of(net);
  };
  const auto one = train_alone(0), other = train_alone(1);
  run_ranks(2, [&](Communicator& comm) {
    manual_seed(1);
    nn::Sequential net = small_net();
    LocalSGD average(net, comm, {.period = 3});
    nn::SGD optimizer(net.parameters(), kPlainSgd);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(net, comm.rank(), step).backward();
      optimizer.step();
      average.step();
    }
    const auto parameters = copies_of(net);
    for (std::size_t i = 0; i < one.size(); ++i)
      expect_close(parameters[i], (one[i] + other[i]) * 0.5);
  });
}

TEST(LocalSGDTest, StepsAreSynchronousFirstIfTheyAreToldSo) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(2, 2);
    LocalSGD average(net, comm, {.period = 3, .num_synchronous_steps = 2});
    std::vector<bool> averaged;
    for (int step = 0; step < 8; ++step) averaged.push_back(average.step());
    EXPECT_EQ(averaged, (std::vector<bool>{1, 1, 0, 0, 1, 0, 0, 1}));
    EXPECT_EQ(average.num_steps(), 8);
  });
}

// --- What is sent ---

std::int64_t reduced_bytes(const Communicator& comm) {
  std::int64_t bytes = 0;
  for (const FlightRecord& record : comm.flight().records())
    if (record.call.op == CollectiveOp::all_reduce && record.call.reduce == ReduceOp::mean)
      bytes += record.call.count * static_cast<std::int64_t>(size_bytes(record.call.dtype));
  return bytes;
}

// For a model whose parameters leave no gaps in the arena.
TEST(LocalSGDTest, SendsOneKthOfTheBytes) {
  run_ranks(2, [](Communicator& comm) {
    const auto bytes_of = [&](auto train) {
      const std::int64_t before = reduced_bytes(comm);
      nn::Linear net(16, 16);
      train(net);
      return reduced_bytes(comm) - before;
    };
    const std::int64_t of_data_parallel = bytes_of([&](nn::Linear& net) {
      DistributedDataParallel replica(net, comm);
      for (int step = 0; step < kSteps; ++step) sum(replica(ones({1, 16}))).backward();
    });
    EXPECT_EQ(of_data_parallel, kSteps * (16 * 16 + 16) * 4);
    for (const std::int64_t period : {1, 2, 3, 6}) {
      const std::int64_t of_local = bytes_of([&](nn::Linear& net) {
        LocalSGD average(net, comm, {.period = period});
        for (int step = 0; step < kSteps; ++step) average.step();
      });
      EXPECT_EQ(of_local * period, of_data_parallel) << period;
    }
  });
}

TEST(LocalSGDTest, ASecondAverageOfTheSameStepChangesNoBit) {
  run_ranks(3, [](Communicator& comm) {
    nn::Sequential net = small_net();
    LocalSGD average(net, comm, {.period = 1});
    average.step();
    const auto once = copies_of(net);
    average.sync();
    for (std::size_t i = 0; i < once.size(); ++i)
      testing::expect_same_bits(net.parameters()[i].detach(), once[i]);
  });
}

TEST(LocalSGDTest, RunningStatisticsAreAveraged) {
  run_ranks_on_devices(2, [](Communicator& comm) {
    nn::BatchNorm1d net(2, {.momentum = 1});
    LocalSGD average(net, comm, {.period = 1});
    net.forward(tensor({{1., 2.}, {3., 4.}}) + 10 * comm.rank());
    EXPECT_FALSE(replicas_identical(net, comm));
    average.step();
    EXPECT_TRUE(replicas_identical(net, comm));
    expect_close(net.state_dict().at("running_mean"), {7, 8});
  });
}

// On a GPU, all steps but the first two are replays, which repeat nothing that the host does.
TEST(LocalSGDTest, CapturedStepsAreAveraged) {
  run_ranks_on_devices(2, [](Communicator& comm) {
    manual_seed(1);
    nn::Linear net(2, 2);
    LocalSGD average(net, comm, {.period = 2});
    nn::SGD optimizer(net.parameters(), {.learning_rate = 1});
    nn::CapturedStep step(
        [&](const std::vector<Tensor>& batch) {
          optimizer.zero_grad();
          const Tensor loss = sum(net(batch[0]));
          loss.backward();
          optimizer.step();
          return std::vector{loss};
        },
        net.parameters());
    const Tensor bias = kernels::clone(net.bias.detach());
    const Tensor batch = full({2 * comm.rank() + 2, 2}, comm.rank());  // gradients 2 and 4 of bias
    for (int i = 1; i <= 6; ++i) {
      step({batch});
      EXPECT_EQ(average.step(), i % 2 == 0);
      EXPECT_EQ(replicas_identical(net, comm), i % 2 == 0) << "step " << i;
      if (i % 2 == 0) expect_close(net.bias.detach(), bias - 3. * i);
    }
  });
}

// The mean of three equal numbers need not have their bits.
TEST(LocalSGDTest, WhatNoRankChangesKeepsItsBits) {
  struct Net : nn::Module {
    Tensor trained = parameter("trained", ones({64})), frozen = parameter("frozen", randn({64})),
           frozen_later = parameter("frozen_later", randn({64})),
           fixed = buffer("fixed", randn({64}));
  };
  run_ranks_on_devices(3, [](Communicator& comm) {
    manual_seed(1);
    Net net;
    net.frozen.set_requires_grad(false);
    LocalSGD average(net, comm, {.period = 2});
    nn::SGD optimizer({net.trained, net.frozen_later}, kMomentumSgd);
    const auto step = [&] {
      optimizer.zero_grad();
      (sum(net.trained * net.frozen_later) * (comm.rank() + 1.)).backward();
      optimizer.step();
      average.step();
    };
    step();  // frozen_later differs by rank, and is averaged once more
    net.frozen_later.set_requires_grad(false);
    step();
    EXPECT_TRUE(replicas_identical(net, comm));
    const auto before = copies_of(net);
    const Tensor fixed = kernels::clone(net.fixed);
    step();
    step();
    EXPECT_NE(net.trained.to_vector<float>(), before[0].to_vector<float>());
    for (std::size_t i = 1; i < 3; ++i)
      testing::expect_same_bits(net.parameters()[i].detach(), before[i]);
    testing::expect_same_bits(net.fixed, fixed);
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

// --- Errors ---

TEST(LocalSGDTest, ThrowsForOptionsThatMakeNoSense) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(2, 2);
    expect_throws<ValueError>([&] { LocalSGD(net, comm, {.period = 0}); },
                              "the period must be positive; got 0");
    expect_throws<ValueError>([&] { LocalSGD(net, comm, {.num_synchronous_steps = -1}); },
                              "must not be negative; got -1");
  });
}

TEST(LocalSGDTest, DifferentModelsAreNamed) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          nn::Linear net(4, comm.rank() == 2 ? 5 : 3);
          LocalSGD average(net, comm);
        });
      },
      "different on rank 2");
}

TEST(LocalSGDTest, RanksThatStepUnequallyOftenAreNamed) {
  run_ranks(3, [](Communicator& comm) {
    nn::Linear net(2, 2);
    LocalSGD average(net, comm, {.period = 4});
    for (int step = 0; step < (comm.rank() == 1 ? 2 : 3); ++step) average.step();
    expect_throws<CollectiveError>([&] { average.sync(); },
                                   "got 3 on rank 0, 2 on rank 1, 3 on rank 2");
  });
}

TEST(LocalSGDTest, ARankThatStopsEarlyIsNamed) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          nn::Linear net(2, 2);
          LocalSGD average(net, comm, {.period = 2});
          for (int step = 0; step < (comm.rank() == 1 ? 3 : 4); ++step) average.step();
        });
      },
      "got rank 1, which has left the group");
}

TEST(LocalSGDTest, AModuleThatMovedOrUnfrozeIsRefused) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear moved(2, 2), unfrozen(2, 2);
    LocalSGD of_moved(moved, comm, {.period = 1});
    moved.to(DType::float64);
    EXPECT_THROW(of_moved.step(), AutogradError);
    unfrozen.bias.set_requires_grad(false);
    LocalSGD of_unfrozen(unfrozen, comm, {.period = 1});
    unfrozen.bias.set_requires_grad();
    expect_throws<AutogradError>([&] { of_unfrozen.step(); }, "was made must stay so; got one of");
  });
}

}  // namespace
}  // namespace ringrad
