// What a Join refuses, and how ranks that cannot continue end.

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/parallel/comm/ranks.h"
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
