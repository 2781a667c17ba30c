#include "ringrad/parallel/train/pipeline/auto_partition.h"

#include <gtest/gtest.h>

#include <sstream>

#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::run_ranks_on_devices;

constexpr ProfileOptions kOnce{.warm_up = 1, .repeats = 1};

nn::Sequential make_net() {
  return nn::Sequential(nn::Linear(8, 64), nn::ReLU(), nn::Linear(64, 64), nn::Tanh(),
                        nn::Linear(64, 4));
}

TEST(AutoPartitionTest, CutsBetweenPassesAndWithinTheLimit) {
  nn::Sequential net = nn::resnet20();
  PartitionOptions options = partition_options(one_forward_one_backward(4, 8));
  options.memory_limit_bytes = std::int64_t{1} << 30;
  const Partition partition = auto_partition(net, randn({2, 1, 28, 28}), 4, options, kOnce);
  ASSERT_EQ(partition.starts.size(), 4U);
  EXPECT_EQ(partition.stages.back().end, 15U);
  EXPECT_LE(partition.step.memory_bytes, options.memory_limit_bytes);
  for (const std::size_t start : partition.starts) EXPECT_NE(start, 2U);  // a ReLU
  EXPECT_EQ(partition.stages[0].first, "conv1 Conv2d");
  EXPECT_GT(partition.stages[partition.bottleneck()].seconds(), 0);
}

TEST(AutoPartitionTest, SaysInWhichMemoryItWouldFit) {
  nn::Sequential net = make_net();
  expect_throws<ValueError>(
      [&] {
        auto_partition(net, randn({2, 8}), 2, {.memory_limit_bytes = 100}, kOnce);
      },
      "partition: 2 stages must fit into 100 bytes per device");
  expect_throws<ValueError>(
      [&] {
        auto_partition(net, randn({2, 8}), 5, {}, kOnce);
      },
      "got 4 layers for 5 stages");
}

TEST(AutoPartitionTest, AllRanksCutAlike) {
  run_ranks_on_devices(4, [](Communicator& comm) {
    nn::Sequential net = make_net();
    const Partition partition = auto_partition(net, randn({16, 8}), 3, comm, {}, kOnce);
    std::ostringstream text;
    text << partition;
    // Everything that is measured, bit by bit.
    std::vector<double> numbers{partition.step.seconds, partition.step.bubble};
    for (const StageCost& stage : partition.stages)
      for (const double number : {static_cast<double>(stage.begin), stage.forward_s,
                                  stage.backward_s, static_cast<double>(stage.memory_bytes)})
        numbers.push_back(number);
    const Tensor ours = from_values<double>(numbers, {std::ssize(numbers)});
    const Tensor roots = testing::contiguous_copy(ours);
    comm.broadcast(roots, 0);
    testing::expect_same_bits(ours, roots);
    EXPECT_EQ(partition.stages[0].first, "0 Linear");
  });
}

TEST(AutoPartitionTest, WhatRankZeroCannotMeasureAllRanksHearOf) {
  run_ranks(3, [](Communicator& comm) {
    nn::Sequential net = make_net();
    const Tensor x = comm.rank() == 0 ? randn({2, 7}) : randn({2, 8});
    expect_throws<ValueError>([&] { auto_partition(net, x, 2, comm, {}, kOnce); },
                              "rank 0: profile_layers: layer 0 Linear: linear: ");
    comm.barrier();  // the group still works
  });
}

TEST(AutoPartitionTest, RanksMustHaveNetsOfAsManyLayers) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& comm) {
                           nn::Sequential net = make_net();
                           if (comm.rank() == 1) net.append(nn::Tanh());
                           auto_partition(net, randn({2, 8}), 2, comm, {}, kOnce);
                         }),
               CollectiveError);
}

}  // namespace
}  // namespace ringrad
