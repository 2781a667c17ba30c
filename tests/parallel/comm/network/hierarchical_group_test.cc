// Groups of several hosts. The processes run on this machine but are told that they are on several.

#include "ringrad/parallel/comm/network/hierarchical_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/options_with.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/processes.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::Body;
using testing::error_of;
using testing::expect_contains;
using testing::Join;
using testing::Processes;
using HostOf = std::function<int(int rank)>;

Join on_hosts(const HostOf& host_of, milliseconds deadline = std::chrono::seconds(30)) {
  return [=](Store& store, int rank, int size) {
    TransportOptions network;
    HierarchicalOptions options;
    options.deadline = deadline;
    network.deadline = deadline + kNetworkPatience;
    options.host = concat("host", host_of(rank));
    return make_hierarchical_group(join_gloo_group(store, "test", rank, size, network), store,
                                   options);
  };
}

void expect_all_content(int world_size, const Join& join, const Body& body) {
  Processes processes(world_size, join, body);
  for (int rank = 0; rank < world_size; ++rank)
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

std::string failures() { return ::testing::Test::HasFailure() ? "a check failed" : ""; }

const HostOf kInPairs = [](int rank) { return rank / 2; };

TEST(HierarchicalGroupTest, DoesWhatEveryBackendDoes) {
  const Body suite = [](Communicator& comm) {
    testing::run_backend_suite(comm);
    return failures();
  };
  for (const int n : {1, 2, 4}) expect_all_content(n, on_hosts(kInPairs), suite);
  expect_all_content(3, on_hosts([](int) { return 0; }), suite);
  expect_all_content(3, on_hosts([](int rank) { return rank; }), suite);
}

// One host has three ranks, the other two, and their ranks are not consecutive.
TEST(HierarchicalGroupTest, HostsMayDifferInRanksAndRanksMayAlternate) {
  expect_all_content(5, on_hosts([](int rank) { return rank % 2; }), [](Communicator& comm) {
    testing::run_backend_suite(comm);
    return failures();
  });
}

// The product over one host alone is out of float16's range.
TEST(HierarchicalGroupTest, SixteenBitFloatsAreRoundedOnce) {
  expect_all_content(4, on_hosts(kInPairs), [](Communicator& comm) {
    const Tensor x = full({3}, comm.rank() < 2 ? 300 : 0.01, {.dtype = DType::float16});
    comm.all_reduce(x, ReduceOp::product);
    EXPECT_NEAR(kernels::cast(x, DType::float32).data<float>()[2], 9, 0.02);
    return failures();
  });
}

std::vector<float> sum_of(Communicator& comm, Collective collective) {
  Generator generator(static_cast<std::uint64_t>(comm.rank()));
  const Tensor x = randn({1000}, {}, generator), part = empty({1000 / comm.world_size()});
  if (collective == Collective::all_reduce) comm.all_reduce(x);
  if (collective == Collective::reduce) comm.reduce(x, 3);
  if (collective != Collective::reduce_scatter) return x.to_vector<float>();
  comm.reduce_scatter(part, x);
  return part.to_vector<float>();
}

// The plan runs on threads. A flat plan gives other bits, as it adds in rank order.
TEST(HierarchicalGroupTest, GivesTheBitsOfTheLeadersPlan) {
  expect_all_content(4, on_hosts(kInPairs), [](Communicator& comm) {
    for (const auto collective :
         {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
      const bool is_held = collective != Collective::reduce || comm.rank() == 3;
      const auto actual = sum_of(comm, collective);
      const auto on_threads = [&](const GroupOptions& options) {
        std::vector<float> sum;
        run_ranks(
            4,
            [&](Communicator& thread) {
              const auto own = sum_of(thread, collective);
              if (thread.rank() == comm.rank()) sum = own;
            },
            options);
        return sum;
      };
      if (!is_held) continue;
      const Planner leaders = [=](int n, PlanOptions options) {
        options.ranks_per_host = 2;
        return make_plan(collective, "leaders", n, options);
      };
      EXPECT_EQ(actual, on_threads(testing::options_with(collective, leaders)));
      EXPECT_NE(actual, on_threads({}));
    }
    return failures();
  });
}

constexpr milliseconds kDeadline{2000};

// A failed rank is named on all hosts, although only the other ranks of its host see it end.
void expect_named(int victim, int signal) {
  const Body body = [victim](Communicator& comm) -> std::string {
    const Tensor x = ones({1000});
    auto begin = std::chrono::steady_clock::now();
    const std::string error = error_of([&] {
      for (;; begin = std::chrono::steady_clock::now()) comm.all_reduce(x);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kDeadline + testing::kPatience);
    expect_contains(error, concat("rank ", victim));
    EXPECT_EQ(comm.failed_rank(), victim) << error;
    return failures();
  };
  Processes processes(4, on_hosts(kInPairs, kDeadline), body);
  processes.wait_until_all_joined();
  processes.send_signal(victim, signal);
  for (int rank = 0; rank < 4; ++rank)
    if (rank != victim) {
      EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
    }
}

TEST(HierarchicalGroupTest, ARankThatIsKilledIsNamedOnAllHosts) {
  for (const int victim : {2, 3}) expect_named(victim, SIGKILL);
}

TEST(HierarchicalGroupTest, ARankThatIsStoppedIsNamedOnAllHosts) {
  for (const int victim : {2, 3}) expect_named(victim, SIGSTOP);
}

TEST(HierarchicalGroupTest, SurvivorsGoOn) {
  Processes processes(4, on_hosts(kInPairs, kDeadline), [](Communicator& comm) -> std::string {
    const Tensor x = ones({1000});
    if (comm.rank() == 2) raise(SIGKILL);
    EXPECT_THROW(comm.all_reduce(x), CollectiveError);
    const auto begin = std::chrono::steady_clock::now();
    const auto rest = comm.shrink();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::kPatience);
    EXPECT_EQ(rest->world_size(), 3);
    testing::expect_throws<CollectiveError>([&] { comm.shrink(); }, "a group shrinks once");
    testing::expect_exact(*rest, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 1000});
    return failures();
  });
  for (const int rank : {0, 1, 3}) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

}  // namespace
}  // namespace ringrad
