// What a Join refuses, and how ranks that cannot continue end.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/join.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

void on_one_rank(const std::function<void(nn::Linear&, DistributedDataParallel&)>& body) {
  run_ranks(1, [&](Communicator& comm) {
    nn::Linear net(6, 3);
    DistributedDataParallel model(net, comm);
    body(net, model);
  });
}

TEST(JoinErrorsTest, AfterFinishThereAreNoMoreForwardPassesInTraining) {
  on_one_rank([](nn::Linear& net, DistributedDataParallel& model) {
    {
      Join join(model);
      join.finish([] {});
      expect_throws<ValueError>([&] { model(ones({2, 6})); }, "after finish()");
      expect_throws<ValueError>([&] { join.finish([] {}); }, "must be called once");
      net.eval();
      model(ones({2, 6}));
      net.train();
    }
    model(ones({2, 6}));
  });
}

TEST(JoinErrorsTest, AModelHasOneAtATime) {
  on_one_rank([](nn::Linear&, DistributedDataParallel& model) {
    const Join join(model);
    expect_throws<ValueError>([&] { const Join second(model); }, "one at a time");
  });
}

TEST(JoinErrorsTest, ABatchHasRows) {
  on_one_rank([](nn::Linear&, DistributedDataParallel& model) {
    const Join join(model);
    expect_throws<ValueError>([&] { model(ones({0, 6})); }, "rows along axis 0; got shape (0, 6)");
    expect_throws<ValueError>([&] { model(scalar_tensor(1)); }, "rows along axis 0; got shape ()");
  });
}

TEST(JoinErrorsTest, AStepMustNotEndUnderNoSync) {
  on_one_rank([](nn::Linear&, DistributedDataParallel& model) {
    Join join(model);
    {
      const DistributedDataParallel::NoSync alone(model);
      sum(model(ones({2, 6}))).backward();
    }
    expect_throws<ValueError>([&] { join.finish([] {}); }, "got 2 rows that were not reduced");
  });
}

TEST(JoinErrorsTest, RanksThatDoNotJoinAreNamed) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          nn::Linear net(6, 3);
          DistributedDataParallel model(net, comm);
          std::optional<Join> join;
          if (comm.rank() != 1) join.emplace(model);
          sum(model(ones({4, 6}))).backward();
        });
      },
      "all_gather(int64, 3 elements) on ranks 0, 2 and all_reduce(");
}

// What rank 0 still trains is b, while rank 1 has no more data for a.
TEST(JoinErrorsTest, ModelsOfOneGroupDoNotMix) {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    std::string messages[2];
    run_ranks(2, [&](Communicator& comm) {
      nn::Linear a(6, 3);
      nn::Sequential b(nn::Linear(6, 3));
      DistributedDataParallel model_a(a, comm, {.overlap = overlap});
      DistributedDataParallel model_b(b, comm, {.overlap = overlap});
      Join join_a(model_a), join_b(model_b);
      try {
        for (int step = 0; step < 3 - comm.rank(); ++step) {
          sum(model_a(ones({4, 6}))).backward();
          sum(model_b(ones({4, 6}))).backward();
        }
        join_a.finish([] {});
        join_b.finish([] {});
      } catch (const CollectiveError& error) {
        messages[comm.rank()] = error.what();
      }
    });
    for (const std::string& message : messages) {
      EXPECT_NE(message.find("for the DistributedDataParallel of Linear(6, 3) at "),
                std::string::npos)
          << message;
      EXPECT_NE(message.find("for the DistributedDataParallel of Sequential at "),
                std::string::npos)
          << message;
    }
  }
}

// Rank 1 has finished and steps after each pass, rank 0 after two.
TEST(JoinErrorsTest, AStepOfSeveralPassesAccumulatesUnderNoSync) {
  std::string messages[2];
  run_ranks(2, [&](Communicator& comm) {
    nn::Linear net(6, 3);
    DistributedDataParallel model(net, comm);
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
    Join join(model);
    try {
      for (int step = 0; step < 2 - comm.rank(); ++step) {
        optimizer.zero_grad();
        for (int part = 0; part < 2; ++part) sum(model(ones({4, 6}))).backward();
        optimizer.step();
      }
      join.finish([&] { optimizer.step(); });
    } catch (const CollectiveError& error) {
      messages[comm.rank()] = error.what();
    }
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find("accumulates under NoSync; got parameters that changed since the latest "
                           "pass on rank 1 and not on rank 0"),
              std::string::npos)
        << message;
}

TEST(JoinErrorsTest, APassMustComeFromACallOfTheModel) {
  on_one_rank([](nn::Linear& net, DistributedDataParallel& model) {
    const Join join(model);
    expect_throws<AutogradError>(
        [&] {
          sum(net.forward(ones({2, 6}))).backward();
        },
        "must come from a call of the model");
    model.begin_forward(ones({2, 6}));  // says that one comes
    sum(net.forward(ones({2, 6}))).backward();
  });
}

TEST(JoinErrorsTest, ARankThatFailsWhileOthersHaveFinishedEndsThem) {
  for (const bool in_step : {true, false})
    expect_throws<ValueError>(
        [in_step] {
          run_ranks(2, [in_step](Communicator& comm) {
            nn::Linear net(6, 3);
            DistributedDataParallel model(net, comm);
            Join join(model);
            const auto fail = [] { throw ValueError("told to fail", Where::current()); };
            for (std::size_t step = 0; comm.rank() == 1 && step < 3; ++step) {
              if (!in_step && step == 1) fail();
              sum(model(ones({4, 6}))).backward();
            }
            join.finish([&] {
              if (in_step) fail();
            });
          });
        },
        in_step ? "rank 0: told to fail" : "rank 1: told to fail");
}

// A module that calls the other ranks in its forward pass, as synchronised batch norm does.
TEST(JoinErrorsTest, ModulesWithCollectivesCannotRunWithoutAllRanks) {
  struct Talks : nn::Module {
    explicit Talks(Communicator& group) : comm(group) {}
    Communicator& comm;
    nn::Linear& linear = child("linear", nn::Linear(6, 3));
    Tensor forward(const Tensor& x, Where) override {
      const Tensor mean = clone(x.detach());
      comm.all_reduce(mean, ReduceOp::mean);
      return linear(x - mean);
    }
  };
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          Talks net(comm);
          DistributedDataParallel model(net, comm);
          Join join(model);
          if (comm.rank() == 0) sum(model(ones({2, 6}))).backward();
          join.finish([] {});
        });
      },
      "all_reduce(mean, float32, 12 elements) on rank 0");
}

TEST(JoinErrorsTest, AStaticGraphNeedsDataInTheFirstPass) {
  expect_throws<AutogradError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          nn::Linear net(6, 3);
          DistributedDataParallel model(net, comm, {.static_graph = true});
          Join join(model);
          if (comm.rank() == 0) sum(model(ones({2, 6}))).backward();
          join.finish([] {});
        });
      },
      "must have data in the first pass; got none on rank 1");
}

}  // namespace
}  // namespace ringrad
