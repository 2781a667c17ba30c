// What a ShardedOptimizer refuses, and how a failure of one rank ends all.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/muon.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using ringrad::testing::expect_throws;

using Parameters = std::vector<Tensor>;
using MakeOptimizer = ShardedOptimizer::MakeOptimizer;

const MakeOptimizer kAdam = [](const Parameters& p) {
  return std::make_unique<nn::Adam>(p, nn::AdamOptions{.learning_rate = 0.01});
};

TEST(ShardedOptimizerErrorsTest, DifferentModelsAreNamed) {
  const auto construct_with = [](auto make_net) {
    run_ranks(3, [&](Communicator& comm) {
      nn::Linear net = make_net(comm.rank());
      ShardedOptimizer optimizer(net, comm, kAdam);
    });
  };
  expect_throws<CollectiveError>(
      [&] { construct_with([](int rank) { return nn::Linear(4, rank == 2 ? 5 : 3); }); },
      "ShardedOptimizer: all ranks must hold the model of rank 0; different on rank 2");
  const auto frozen_on_one = [](int rank) {
    nn::Linear net(4, 3);
    net.bias.set_requires_grad(rank != 1);
    return net;
  };
  expect_throws<CollectiveError>([&] { construct_with(frozen_on_one); }, "different on rank 1");
}

TEST(ShardedOptimizerErrorsTest, WrongFactoriesAreRefused) {
  const auto construct_with = [](const MakeOptimizer& make) {
    run_ranks(1, [&](Communicator& comm) {
      nn::Linear net(4, 3);
      ShardedOptimizer optimizer(net, comm, make);
    });
  };
  expect_throws<ValueError>([&] { construct_with([](const Parameters&) { return nullptr; }); },
                            "got none");
  expect_throws<ValueError>(
      [&] {
        construct_with([](const Parameters&) { return kAdam(nn::Linear(4, 3).parameters()); });
      },
      "got one of others");
}

// std::make_unique is where the optimizer's constructor is called, and not where the user errs.
TEST(ShardedOptimizerErrorsTest, WhatFactoriesThrowNamesTheLineOfTheCall) {
  const auto error_of = [](const MakeOptimizer& make) {
    std::string text;
    run_ranks(1, [&](Communicator& comm) {
      nn::Linear net(4, 3);
      try {
        ShardedOptimizer optimizer(net, comm, make);
      } catch (const Error& error) {
        text = error.what();
      }
    });
    return text;
  };
  const std::string matrices =
      error_of([](const Parameters& parameters) { return std::make_unique<nn::Muon>(parameters); });
  EXPECT_NE(matrices.find("must make an optimizer that treats each element by itself"),
            std::string::npos);
  EXPECT_NE(matrices.find("got: Muon: parameters must be matrices"), std::string::npos);
  const std::string rate = error_of([](const Parameters& parameters) {
    return std::make_unique<nn::Adam>(parameters, nn::AdamOptions{.learning_rate = -1});
  });
  EXPECT_NE(rate.find("make_optimizer: optimizer: the learning rate must be"), std::string::npos);
  for (const std::string& text : {matrices, rate}) {
    EXPECT_NE(text.find("sharded_optimizer_errors_test.cc"), std::string::npos) << text;
    EXPECT_EQ(text.find("unique_ptr"), std::string::npos) << text;
  }
}

TEST(ShardedOptimizerErrorsTest, AModelWithoutTrainedParametersIsRefused) {
  const auto construct = [](Communicator& comm) {
    nn::Identity net;
    ShardedOptimizer optimizer(net, comm, kAdam);
  };
  expect_throws<ValueError>([&] { run_ranks(2, construct); }, "at least one parameter");
}

TEST(ShardedOptimizerErrorsTest, FailureOfOneRankEndsAllOfThem) {
  expect_throws<ValueError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          nn::Linear net(4, 3);
          ShardedOptimizer optimizer(net, comm, kAdam);
          for (int step = 0;; ++step) {
            if (step == 2 && comm.rank() == 1) throw ValueError("told to fail", Where::current());
            sum(net(ones({1, 4}))).backward();
            optimizer.step();
          }
        });
      },
      "rank 1: told to fail");
}

}  // namespace
}  // namespace ringrad
