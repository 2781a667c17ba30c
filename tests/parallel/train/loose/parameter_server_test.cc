// Ranks are threads; the reference is one rank on all the data.

#include "ringrad/parallel/train/loose/parameter_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"
#include "ringrad/tests/parallel/train/small_training.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::copies_of;
using testing::Counter;
using testing::expect_close;
using testing::expect_same_bits;
using testing::kMomentumSgd;
using testing::loss_of;
using testing::run_ranks_on_devices;
using testing::small_net;
using Steps = std::vector<int>;  // of each worker

struct Outcome {
  ParameterServerReport report;
  std::vector<Tensor> parameters;
};

constexpr auto kPush = [](ParameterClient& client, int /*step*/) { client.push(); };

// One rank's part, where worker w (rank w + 1) makes steps[w] steps. Returns what the server gets.
template <class Push = decltype(kPush)>
Outcome train(Communicator& comm, const ParameterServerOptions& options, const Steps& steps,
              Push push = kPush) {
  manual_seed(static_cast<std::uint64_t>(comm.rank()) + 1);  // rank 0's values must win
  nn::Sequential net = small_net();
  Outcome outcome;
  if (comm.rank() == 0) {
    nn::SGD optimizer(net.parameters(), kMomentumSgd);
    outcome.report = serve_parameters(net, optimizer, comm, options);
  } else {
    ParameterClient client(net, comm);
    for (int step = 0; step < steps[static_cast<std::size_t>(comm.rank()) - 1]; ++step) {
      client.pull();
      loss_of(net, comm.rank(), step).backward();
      push(client, step);
    }
    client.finish();
  }
  EXPECT_TRUE(replicas_identical(net, comm));
  outcome.parameters = copies_of(net);
  return outcome;
}

// --- Staleness 0 ---

// In each round one rank takes the mean of the losses of the workers that have not finished.
std::vector<Tensor> train_alone(const Steps& steps) {
  manual_seed(1);
  nn::Sequential net = small_net();
  nn::SGD optimizer(net.parameters(), kMomentumSgd);
  for (int step = 0;; ++step) {
    std::vector<Tensor> losses;
    for (std::size_t worker = 0; worker < steps.size(); ++worker)
      if (step < steps[worker]) losses.push_back(loss_of(net, static_cast<int>(worker) + 1, step));
    if (losses.empty()) return copies_of(net);
    optimizer.zero_grad();
    mean(stack(losses)).backward();
    optimizer.step();
  }
}

TEST(ParameterServerTest, WithStalenessZeroItComputesWhatOneRankComputes) {
  for (const Steps& steps : {Steps{4}, Steps{3, 3}, Steps{3, 1, 0, 4}})
    run_ranks_on_devices(static_cast<int>(steps.size()) + 1, [&](Communicator& comm) {
      const Outcome outcome = train(comm, {.staleness = 0}, steps);
      const auto expected = train_alone(steps);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expect_close(outcome.parameters[i], expected[i], 64);
      if (comm.rank() > 0) return;
      EXPECT_EQ(outcome.report.num_steps, *std::max_element(steps.begin(), steps.end()));
      EXPECT_EQ(outcome.report.num_pulls_at_lead.size(), 1u);
    });
}

// Runs in which the workers push in the order of rank, and in the reverse order.
TEST(ParameterServerTest, WithStalenessZeroTheOrderInWhichGradientsComeChangesNoBit) {
  std::vector<Tensor> first;
  for (int run = 0; run < 10; ++run) {
    std::atomic<int> num_pushed = 0;
    run_ranks(4, [&](Communicator& comm) {
      const auto push_in_turn = [&](ParameterClient& client, int step) {
        const int turn = 3 * step + (run % 2 == 0 ? comm.rank() - 1 : 3 - comm.rank());
        for (int now = num_pushed; now < turn; now = num_pushed) num_pushed.wait(now);
        client.push();
        ++num_pushed;
        num_pushed.notify_all();
      };
      const Outcome outcome = train(comm, {.staleness = 0}, {5, 5, 5}, push_in_turn);
      if (comm.rank() > 0) return;
      if (run == 0) first = outcome.parameters;
      for (std::size_t i = 0; i < first.size(); ++i)
        expect_same_bits(outcome.parameters[i], first[i]);
    });
  }
}

// --- Bounded staleness ---

TEST(ParameterServerTest, TrainsWithAnyStaleness) {
  for (const std::int64_t staleness : {0, 1, 3})
    run_ranks_on_devices(4, [&](Communicator& comm) {
      const Outcome outcome = train(comm, {.staleness = staleness}, {4, 2, 6});
      if (comm.rank() > 0) return;
      EXPECT_EQ(outcome.report.num_gradients, (std::vector<std::int64_t>{0, 4, 2, 6}));
      EXPECT_EQ(outcome.report.num_steps, staleness == 0 ? 6 : 12);
      EXPECT_LE(outcome.report.num_pulls_at_lead.size(), static_cast<std::size_t>(staleness) + 1);
    });
}

// Worker 1's gradients are 1, worker 2's 1000: the sum shows how many of each were applied. No
// worker finishes before all are applied, since that would change the scale.
TEST(ParameterServerTest, EachGradientIsAppliedExactlyOnce) {
  for (const std::int64_t staleness : {1, 4}) {
    std::latch all_applied(2);
    run_ranks(3, [&](Communicator& comm) {
      Counter net;
      net.to(DType::float64);
      if (comm.rank() == 0) {
        nn::SGD optimizer(net.parameters(), {.learning_rate = 2});  // a gradient counts half
        serve_parameters(net, optimizer, comm, {.staleness = staleness});
      } else {
        ParameterClient client(net, comm);
        for (int step = 0; step < 100; ++step) {
          client.pull();
          sum(net(full({1}, comm.rank() == 1 ? 1 : 1000, {.dtype = DType::float64}))).backward();
          client.push();
        }
        client.pull();
        EXPECT_EQ(client.clock(), 100);
        all_applied.arrive_and_wait();
        client.finish();
      }
      EXPECT_EQ(net.applied(), 100 + 100 * 1000);
    });
  }
}

// The fast worker runs ahead as far as it may, while the slow one stays at its first step. The slow
// worker pushes only when the fast one is at its limit and its next pull has lasted ten round
// trips. Only then may the fast worker's pull return.
TEST(ParameterServerTest, AFastWorkerIsAheadByTheStalenessAndNeverMore) {
  for (const int staleness : {0, 1, 3}) {
    SCOPED_TRACE(staleness);
    std::atomic<bool> fast_is_at_limit, slow_has_pushed;
    run_ranks_on_devices(3, [&](Communicator& comm) {
      Counter net;
      net.to(default_device());
      fast_is_at_limit = slow_has_pushed = false;
      comm.barrier();
      if (comm.rank() == 0) {
        nn::SGD optimizer(net.parameters(), {.learning_rate = 2});
        const auto report = serve_parameters(net, optimizer, comm, {.staleness = staleness});
        EXPECT_EQ(report.num_pulls_at_lead.size(), static_cast<std::size_t>(staleness) + 1);
        return;
      }
      ParameterClient client(net, comm);
      const auto step = [&] {
        client.pull();
        EXPECT_LE(client.lead(), staleness);
        sum(net(ones({1}))).backward();
      };
      if (comm.rank() == 1) {
        for (int i = 0; i <= staleness; ++i) {
          step();
          EXPECT_EQ(client.lead(), i);
          EXPECT_FALSE(slow_has_pushed);
          client.push();
        }
        fast_is_at_limit = true;
        step();
        EXPECT_TRUE(slow_has_pushed) << "was let ahead by more than the staleness";
        client.push();
      } else {
        step();
        while (!fast_is_at_limit) client.pull();
        for (int i = 0; i < 10; ++i) client.pull();
        slow_has_pushed = true;
        client.push();
        step();
        client.push();
      }
      client.finish();
    });
  }
}

// A pull includes the worker's own gradients, and the first c - s of all workers.
TEST(ParameterServerTest, APullIncludesTheWorkersOwnGradientsAndOldOnesOfAll) {
  constexpr int kSteps = 30;
  for (const int staleness : {0, 2})
    run_ranks(4, [&](Communicator& comm) {
      Counter net;
      if (comm.rank() == 0) {
        nn::SGD optimizer(net.parameters(), {.learning_rate = 3});
        serve_parameters(net, optimizer, comm, {.staleness = staleness});
        return;
      }
      ParameterClient client(net, comm);
      for (int step = 0; step < kSteps; ++step) {
        client.pull();
        const std::int64_t least = step + 2 * std::max(0, step - staleness);
        EXPECT_GE(net.applied(), staleness == 0 ? 3 * step : least);
        sum(net(ones({1}))).backward();
        client.push();
      }
      client.finish();
    });
}

// The slow worker keeps calling, but makes no step for longer than the deadline.
TEST(ParameterServerTest, AWorkerThatWaitsLongerThanTheDeadlineIsNotTakenForDead) {
  constexpr auto kDeadline = testing::kShortDeadline;
  run_ranks(3,
            [&](Communicator& comm) {
              Counter net;
              if (comm.rank() == 0) {
                nn::SGD optimizer(net.parameters());
                EXPECT_EQ(serve_parameters(net, optimizer, comm).num_steps, 2);
                return;
              }
              ParameterClient client(net, comm);
              for (int step = 0; step < 2; ++step) {
                client.pull();
                const auto begin = std::chrono::steady_clock::now();
                if (step == 0 && comm.rank() == 2)
                  while (std::chrono::steady_clock::now() - begin < 2 * kDeadline) client.pull();
                sum(net(ones({1}))).backward();
                client.push();
              }
              client.finish();
            },
            {.deadline = kDeadline});
}

}  // namespace
}  // namespace ringrad
