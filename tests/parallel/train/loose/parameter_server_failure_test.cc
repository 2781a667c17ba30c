// The errors of ranks when a worker or the server fails, and refused arguments.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>

#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/loose/parameter_server.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/train/small_training.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Counter;
using testing::expect_throws;

TEST(ParameterServerTest, AnExceptionInAWorkerEndsAllAndIsWhatRunRanksThrows) {
  for (const std::int64_t staleness : {0, 3}) {
    std::atomic<int> num_told = 0;
    expect_throws<ValueError>(
        [&] {
          run_ranks(4, [&](Communicator& comm) {
            Counter net;
            try {
              if (comm.rank() == 0) {
                nn::SGD optimizer(net.parameters());
                serve_parameters(net, optimizer, comm, {.staleness = staleness});
                return;
              }
              ParameterClient client(net, comm);
              for (int step = 0;; ++step) {
                client.pull();
                if (step == 3 && comm.rank() == 2)
                  throw ValueError("told to fail", Where::current());
                sum(net(ones({1}))).backward();
                client.push();
              }
            } catch (const CollectiveError& error) {
              EXPECT_NE(error.message().find("rank 2"), std::string::npos) << error.what();
              ++num_told;
              throw;
            }
          });
        },
        "rank 2: told to fail");
    EXPECT_EQ(num_told, 3);
  }
}

TEST(ParameterServerTest, AWorkerThatStopsCallingIsNamed) {
  std::latch others_know(3);
  run_ranks(4,
            [&](Communicator& comm) {
              Counter net;
              const auto expect_named = [&](auto body) {
                expect_throws<CollectiveError>(body, "got a failure of rank 3");
                others_know.count_down();
              };
              if (comm.rank() == 0) {
                nn::SGD optimizer(net.parameters());
                return expect_named([&] { serve_parameters(net, optimizer, comm); });
              }
              ParameterClient client(net, comm);
              client.pull();
              if (comm.rank() == 3) {
                others_know.wait();
                EXPECT_THROW(client.push(), CollectiveError);
              } else if (comm.rank() == 2) {
                expect_named([&] { client.finish(); });
              } else {
                client.push();
                expect_named([&] { client.pull(); });
              }
            },
            {.deadline = testing::kShortDeadline});
}

TEST(ParameterServerTest, AWorkerThatLeavesWithoutFinishIsNamed) {
  run_ranks(3, [](Communicator& comm) {
    Counter net;
    if (comm.rank() == 0) {
      nn::SGD optimizer(net.parameters());
      return expect_throws<CollectiveError>([&] { serve_parameters(net, optimizer, comm); },
                                            "got a failure of rank 2");
    }
    ParameterClient client(net, comm);
    if (comm.rank() == 1)
      expect_throws<CollectiveError>([&] { client.finish(); }, "which has left the group");
    else
      client.pull();
  });
}

// An optimizer that fails in its third step.
struct Failing : nn::SGD {
  using SGD::SGD;
  void update(const Range& range, double, Where where) override {
    if (*range.num_steps == 3) throw ValueError("the optimizer is told to fail", where);
  }
};

TEST(ParameterServerTest, AFailureOfTheServerEndsTheWorkers) {
  expect_throws<ValueError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          Counter net;
          if (comm.rank() == 0) {
            Failing optimizer(net.parameters());
            serve_parameters(net, optimizer, comm);
            return;
          }
          ParameterClient client(net, comm);
          for (;;) {
            client.pull();
            sum(net(ones({1}))).backward();
            client.push();
          }
        });
      },
      "the optimizer is told to fail");
}

// --- Errors ---

TEST(ParameterServerTest, RolesAndOptionsAreChecked) {
  run_ranks(1, [](Communicator& comm) {
    nn::Linear net(2, 2);
    nn::SGD optimizer(net.parameters());
    expect_throws<ValueError>([&] { serve_parameters(net, optimizer, comm); },
                              "there must be a worker; got a group of one rank");
    expect_throws<ValueError>([&] { ParameterClient client(net, comm); },
                              "must be a worker; got rank 0");
  });
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(2, 2);
    nn::SGD optimizer(net.parameters());
    if (comm.rank() == 0)
      expect_throws<ValueError>([&] { serve_parameters(net, optimizer, comm, {.staleness = -1}); },
                                "the staleness must not be negative; got -1");
    else
      expect_throws<ValueError>([&] { serve_parameters(net, optimizer, comm); },
                                "the rank must be 0; got 1");
  });
}

TEST(ParameterServerTest, CallsOutOfOrderAreRefused) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(2, 2);
    if (comm.rank() == 0) {
      nn::SGD optimizer(net.parameters());
      serve_parameters(net, optimizer, comm);
      return;
    }
    ParameterClient client(net, comm);
    expect_throws<ValueError>([&] { client.push(); }, "each step must begin with a pull");
    client.pull();
    client.push();
    expect_throws<ValueError>([&] { client.push(); }, "each step must begin with a pull");
    client.finish();
    expect_throws<ValueError>([&] { client.pull(); }, "must make no more calls");
    expect_throws<ValueError>([&] { client.finish(); }, "must make no more calls");
  });
}

TEST(ParameterServerTest, DifferentModelsAreNamed) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          nn::Linear net(4, comm.rank() == 2 ? 5 : 3);
          nn::SGD optimizer(net.parameters());
          if (comm.rank() == 0) serve_parameters(net, optimizer, comm);
          if (comm.rank() > 0) ParameterClient client(net, comm);
        });
      },
      "different on rank 2");
}

}  // namespace
}  // namespace ringrad
