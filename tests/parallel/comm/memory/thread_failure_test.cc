// Guarantees when ranks fail: no rank hangs; every rank gets an error that names the culprit, the
// operation and its sequence number; the caller gets the cause; and a new group works.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "ringrad/core/make_tensor.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/tests/asleep.h"
#include "ringrad/tests/parallel/comm/memory/failing_threads.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::errors_of;
using testing::expect_a_new_group_works;
using testing::expect_throws;
using testing::wait_until_asleep;
using Clock = std::chrono::steady_clock;

constexpr auto kShort = testing::kShortDeadline;

// --- A rank that throws ---

TEST(ThreadFailureTest, TheCauseIsRethrownWithItsTypeAndRank) {
  for (int n : {2, 4})
    for (int culprit : {0, n - 1})
      for (int before : {0, 1, 5}) {
        expect_throws<ShapeError>(
            [&] {
              run_ranks(n, [&](Communicator& comm) {
                for (int k = 0; k < 10; ++k) {
                  if (comm.rank() == culprit && k == before)
                    throw ShapeError("test: boom", Where::current());
                  comm.all_reduce(ones({1000}));
                }
              });
            },
            concat("rank ", culprit, ": test: boom  ["));
        expect_a_new_group_works(n);
      }
}

TEST(ThreadFailureTest, SurvivorsAreToldWhoFailedWhyAndWhereTheyWere) {
  const auto errors = errors_of(3, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) {
      comm.abort("out of patience");
      return;
    }
    comm.all_reduce(ones({8}));
  });
  EXPECT_EQ(errors[1], "");
  for (int r : {0, 2}) {
    const std::string start = concat(
        "all_reduce(sum, float32, 8 elements) #2 on rank ", r,
        ": the group must be whole; got a failure of rank 1: out of patience  [thread_failure");
    EXPECT_EQ(errors[r].substr(0, start.size()), start);
  }
}

TEST(ThreadFailureTest, LaterCallsOnABrokenGroupThrowAtOnce) {
  const auto comms = make_thread_group(2);
  EXPECT_EQ(comms[0]->failed_rank(), -1);
  comms[1]->abort("first");
  comms[0]->abort("second");  // the first counts
  EXPECT_EQ(comms[0]->failed_rank(), 1);
  const std::string_view text = "the group must be whole; got a failure of rank 1: first";
  expect_throws<CollectiveError>([&] { comms[0]->all_reduce(ones({4})); }, text);
  expect_throws<CollectiveError>([&] { comms[0]->barrier(); }, text);
  expect_throws<CollectiveError>([&] { comms[1]->broadcast(ones({4})); }, text);
  expect_throws<CollectiveError>([&] { comms[0]->send(ones({4}), 1); }, text);
  expect_throws<CollectiveError>([&] { comms[0]->recv(ones({4}), 1); }, text);
}

TEST(ThreadFailureTest, AnAbortWakesARankThatWaits) {
  const auto comms = make_thread_group(2);
  std::promise<pid_t> waits;
  std::thread waiter([&] {
    waits.set_value(gettid());
    expect_throws<CollectiveError>(
        [&] { comms[0]->all_reduce(ones({4})); },
        "#1 on rank 0: the group must be whole; got a failure of rank 1");
  });
  wait_until_asleep(waits.get_future().get());
  comms[1]->abort("enough");
  waiter.join();
}

// A rank that is told of a failure frees its tensor while others may be in the middle of reading
// it. A memory checker reports it if they still do.
TEST(ThreadFailureTest, AnAbortInTheMiddleOfACollectiveLeavesNobodyReadingFreedMemory) {
  testing::Random random(6);
  for (int repeat = 0; repeat < 40; ++repeat) {
    const auto delay = std::chrono::microseconds(random.integer(500, 3000));
    // A one-shot reads staged copies, which belong to the call.
    const auto comms = make_thread_group(3, {.all_reduce = repeat % 2 == 0 ? "ring" : "one_shot"});
    std::vector<std::thread> threads;
    for (const auto& comm : comms)
      threads.emplace_back(
          [&comm] { EXPECT_THROW(for (;;) comm->all_reduce(ones({300000})), CollectiveError); });
    std::this_thread::sleep_for(delay);
    comms[1]->abort("enough");
    for (std::thread& thread : threads) thread.join();
  }
}

// --- Ranks that do not come ---

TEST(ThreadFailureTest, ALateRankEndsTheWaitAtTheDeadlineAndIsNamed) {
  const auto start = Clock::now();
  const auto errors = errors_of(4,
                                [&](Communicator& comm) {
                                  comm.barrier();
                                  if (comm.rank() % 2 == 1) {
                                    std::this_thread::sleep_until(start + 5 * kShort);
                                    comm.all_reduce(ones({8}));
                                  }
                                  comm.all_reduce(ones({8}));
                                  EXPECT_LT(Clock::now() - start, kShort + testing::kPatience);
                                },
                                {.deadline = kShort});
  EXPECT_LT(Clock::now() - start, 5 * kShort + testing::kPatience);
  for (const std::string& error : errors)
    EXPECT_NE(error.find(concat("every rank must arrive within ", kShort.count(),
                                " s; got no call from ranks 1, 3")),
              std::string::npos)
        << error;
  // One of the punctual ranks met the deadline itself. The other punctual rank and the late ones
  // were told.
  EXPECT_NE(errors[1].find("#2 on rank 1: the group must be whole; got a failure of rank "),
            std::string::npos)
      << errors[1];
  expect_a_new_group_works(4);
}

TEST(ThreadFailureTest, RunRanksThrowsTheDeadlineThatWasMissed) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2,
                  [](Communicator& comm) {
                    while (comm.rank() == 1 && comm.failed_rank() < 0) std::this_thread::yield();
                    comm.barrier();
                  },
                  {.deadline = kShort});
      },
      concat("rank 0: barrier() #1 on rank 0: every rank must arrive within ", kShort.count(),
             " s; got no call from rank 1"));
}

TEST(ThreadFailureTest, ARankThatHasReturnedIsNotWaitedFor) {
  const auto start = Clock::now();
  const auto errors = errors_of(3, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() != 2) comm.all_reduce(ones({8}));
  });
  EXPECT_LT(Clock::now() - start, testing::kPatience);
  EXPECT_EQ(errors[2], "");
  for (int r : {0, 1})
    EXPECT_NE(errors[r].find("every rank must take part; got rank 2, which has left the group"),
              std::string::npos)
        << errors[r];
}

// --- Two threads on one rank ---

TEST(ThreadFailureTest, ASecondThreadOnOneCommunicatorIsRefused) {
  const auto comms = make_thread_group(2);
  std::promise<pid_t> waits;
  std::thread first([&] {
    waits.set_value(gettid());
    comms[0]->barrier();
  });
  wait_until_asleep(waits.get_future().get());  // until rank 1 comes
  expect_throws<CollectiveError>([&] { comms[0]->all_reduce(ones({4})); },
                                 "all_reduce: a communicator serves one thread at a time; got a "
                                 "second call on rank 0 while another is running");
  comms[1]->barrier();
  first.join();
}

TEST(ThreadFailureTest, ADeadlineMayBeForever) {
  std::promise<pid_t> waits;
  run_ranks(2,
            [&](Communicator& comm) {
              if (comm.rank() == 0) waits.set_value(gettid());
              if (comm.rank() == 1) wait_until_asleep(waits.get_future().get());
              comm.barrier();
            },
            {.deadline = std::chrono::nanoseconds::max()});
}

TEST(ThreadFailureTest, AbsurdlyManySegmentsAreRefused) {
  expect_throws<ValueError>([] { run_ranks(4, [](Communicator&) {}, {.segments = 1 << 30}); },
                            "group: segments must be in [0, 1024] for 4 ranks");
}

}  // namespace
}  // namespace ringrad
