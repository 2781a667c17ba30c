// Ranks that wait for work of rank 0 that takes longer than the group's deadline.

#include "ringrad/parallel/train/common/on_root.h"

#include <gtest/gtest.h>

#include <csignal>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::expect_throws;
using testing::Processes;

constexpr auto kDeadline = 2s;        // of the group; its first calls take time on a loaded machine
constexpr auto kLongerThanThat = 4s;  // duration of the work

std::string wait_for_root(Communicator& comm) {
  bool done = false;
  on_root<DataError>(comm, Where::current(), [&] {
    std::this_thread::sleep_for(kLongerThanThat);
    done = true;
  });
  comm.barrier();
  return done == (comm.rank() == 0) ? "" : "only rank 0 must have worked";
}

// Rank 0 is killed while it works; the others must notice long before the work would end.
std::string expect_death_to_be_noticed(Communicator& comm) {
  const auto begin = Clock::now();
  try {
    on_root<DataError>(comm, Where::current(), [&] { raise(SIGKILL); });
  } catch (const CollectiveError& error) {
    if (error.message().find("rank 0") == std::string::npos) return std::string(error.message());
    return Clock::now() - begin < 30s ? "" : "noticed too late";
  }
  return "no error";
}

const testing::Join kGloo = [](Store& store, int rank, int world_size) {
  TransportOptions options;
  options.deadline = kDeadline;
  return join_gloo_group(store, "test", rank, world_size, options);
};

TEST(OnRootDeathTest, ProcessesWaitLongerThanTheGroupsDeadline) {
  ProcessGroupOptions options;
  options.deadline = kDeadline;
  Processes ranks(3, options, wait_for_root);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

TEST(OnRootDeathTest, RanksOverGlooWaitLongerThanTheGroupsDeadline) {
  Processes ranks(3, kGloo, wait_for_root);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

// Their deadline is a minute.
TEST(OnRootDeathTest, ARootThatDiesAtWorkIsNoticedAtOnce) {
  Processes ranks(3, ProcessGroupOptions(), expect_death_to_be_noticed);
  EXPECT_EQ(ranks.wait(0), -SIGKILL);
  for (int rank = 1; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

TEST(OnRootTest, ThreadsWaitLongerThanTheGroupsDeadline) {
  run_ranks(3, [](Communicator& comm) { EXPECT_EQ(wait_for_root(comm), ""); },
            {.deadline = kDeadline});
}

TEST(OnRootTest, WorkHasADeadlineOfItsOwn) {
  std::atomic<int> num_refused = 0;
  run_ranks(3, [&](Communicator& comm) {
    expect_throws<CollectiveError>(
        [&] {
          on_root<DataError>(
              comm, Where::current(),
              [&] {
                while (num_refused < 2) std::this_thread::yield();  // until the others have left
              },
              100ms);
        },
        "rank 0's work: must be done within 0.1 s; still busy with rank 0");
    ++num_refused;
  });
}

// 20 calls in the first second, and one in each that follows.
TEST(OnRootTest, LongWorkTakesFewPlacesInTheFlightRecorder) {
  run_ranks(3, [](Communicator& comm) {
    const auto num_calls = [&] { return std::ssize(comm.flight().records()); };
    const auto before = num_calls();
    on_root<DataError>(comm, Where::current(), [] { std::this_thread::sleep_for(4s); });
    EXPECT_LT(num_calls() - before, 30);
  });
}

TEST(OnRootTest, WhatRankZeroThrowsAllThrow) {
  run_ranks(3, [](Communicator& comm) {
    expect_throws<DataError>(
        [&] {
          on_root<DataError>(comm, Where::current(),
                             [] { throw std::runtime_error("no such thing"); });
        },
        "rank 0: no such thing");
    comm.barrier();
  });
}

}  // namespace
}  // namespace ringrad
