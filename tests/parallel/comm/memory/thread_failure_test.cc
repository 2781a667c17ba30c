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
#include "ringrad/parallel/comm/ranks.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/tests/asleep.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::wait_until_asleep;
using Clock = std::chrono::steady_clock;

constexpr auto kShort = std::chrono::milliseconds(100);

void expect_a_new_group_works(int n) {
  run_ranks(n, [&](Communicator& comm) {
    const Tensor x = full({10}, comm.rank());
    comm.all_reduce(x);
    EXPECT_EQ(x.to_vector<int>(), std::vector<int>(10, n * (n - 1) / 2));
  });
}

// The error that each rank's own call threw; "" for a rank that finished.
std::vector<std::string> errors_of(int n, const std::function<void(Communicator&)>& body,
                                   const GroupOptions& options = {}) {
  std::vector<std::string> errors(n);
  run_ranks(
      n,
      [&](Communicator& comm) {
        try {
          body(comm);
        } catch (const CollectiveError& e) {
          errors[comm.rank()] = e.what();
        }
      },
      options);
  return errors;
}

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

// --- Ranks that call different things ---

void expect_mismatch(const std::function<void(Communicator&)>& body, std::string_view text) {
  const auto errors = errors_of(3, body);
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("all ranks must make the same call; got"), std::string::npos) << error;
    EXPECT_NE(error.find(text), std::string::npos) << error;
  }
  expect_a_new_group_works(3);
}

TEST(ThreadFailureTest, AnotherOperationIsNamedOnEveryRank) {
  expect_mismatch(
      [](Communicator& comm) {
        comm.barrier();
        if (comm.rank() == 1)
          comm.broadcast(ones({8}));
        else
          comm.all_reduce(ones({8}));
      },
      "got all_reduce(sum, float32, 8 elements) on ranks 0, 2 and broadcast(float32, 8 elements, "
      "root 0) on rank 1");
}

TEST(ThreadFailureTest, AnotherDTypeIsNamedOnEveryRank) {
  expect_mismatch(
      [](Communicator& comm) {
        comm.all_reduce(ones({8}, {.dtype = comm.rank() == 2 ? DType::int32 : DType::float32}));
      },
      "all_reduce(sum, float32, 8 elements) on ranks 0, 1 and all_reduce(sum, int32, 8 elements) "
      "on "
      "rank 2");
}

TEST(ThreadFailureTest, AnotherCountIsNamedOnEveryRank) {
  expect_mismatch([](Communicator& comm) { comm.all_reduce(ones({8 + comm.rank() / 2})); },
                  "all_reduce(sum, float32, 9 elements) on rank 2");
}

TEST(ThreadFailureTest, AnotherReduceOpIsNamedOnEveryRank) {
  expect_mismatch(
      [](Communicator& comm) {
        comm.all_reduce(ones({8}), comm.rank() == 0 ? ReduceOp::mean : ReduceOp::max);
      },
      "all_reduce(mean, float32, 8 elements) on rank 0 and all_reduce(max, float32, 8 elements) on "
      "ranks 1, 2");
}

TEST(ThreadFailureTest, AnotherRootIsNamedOnEveryRank) {
  expect_mismatch([](Communicator& comm) { comm.broadcast(ones({8}), comm.rank() == 1 ? 1 : 2); },
                  "broadcast(float32, 8 elements, root 1) on rank 1");
  expect_mismatch([](Communicator& comm) { comm.reduce(ones({8}), comm.rank() == 1 ? 1 : 2); },
                  "reduce(sum, float32, 8 elements, root 1) on rank 1");
}

TEST(ThreadFailureTest, ASkippedCallIsNamedByWhatCameInstead) {
  expect_mismatch(
      [](Communicator& comm) {
        if (comm.rank() != 0) comm.all_reduce(ones({8}));
        comm.barrier();
      },
      "barrier() on rank 0 and all_reduce(sum, float32, 8 elements) on ranks 1, 2");
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
                                  EXPECT_LT(Clock::now() - start, kShort + std::chrono::seconds(1));
                                },
                                {.deadline = kShort});
  EXPECT_LT(Clock::now() - start, 5 * kShort + std::chrono::seconds(1));
  for (const std::string& error : errors)
    EXPECT_NE(error.find("every rank must arrive within 0.1 s; got no call from ranks 1, 3"),
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
      "rank 0: barrier() #1 on rank 0: every rank must arrive within 0.1 s; got no call from rank "
      "1");
}

TEST(ThreadFailureTest, ARankThatHasReturnedIsNotWaitedFor) {
  const auto start = Clock::now();
  const auto errors = errors_of(3, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() != 2) comm.all_reduce(ones({8}));
  });
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));  // the deadline is a minute
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

TEST(ThreadFailureTest, TheOddOneOutIsNamedWhoeverNotices) {
  for (const int odd : {0, 2, 3})
    run_ranks(4, [&](Communicator& comm) {
      const auto part = comm.split(0);
      expect_throws<CollectiveError>(
          [&] { comm.rank() == odd ? part->barrier() : part->all_reduce(ones({8})); },
          concat("barrier() on rank ", odd));
      EXPECT_EQ(part->failed_rank(), odd);
      comm.barrier();
    });
}

TEST(ThreadFailureTest, WithoutAMajorityTheCallsAreNamedAndNoRank) {
  const auto errors = errors_of(
      4, [](Communicator& comm) { comm.rank() < 2 ? comm.barrier() : comm.all_reduce(ones({8})); });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("got barrier() on ranks 0, 1 and all_reduce(sum, float32, 8 elements) on "
                         "ranks 2, 3"),
              std::string::npos)
        << error;
    EXPECT_EQ(error.find("a failure of rank"), std::string::npos) << error;
  }
}

// No deadline tells: it is an hour.
TEST(ThreadFailureTest, AMessageThatIsAwaitedInsteadOfACollectiveIsNamed) {
  const GroupOptions patient{.deadline = std::chrono::hours(1)};
  for (const int odd : {0, 2, 3}) {
    std::atomic<int> culprit = -1;
    const auto errors = errors_of(
        4,
        [&](Communicator& comm) {
          const int peer = (odd + 1) % 4;
          if (comm.rank() != odd) return comm.all_reduce(ones({8}));
          try {
            comm.recv(empty({8}), peer);
          } catch (const CollectiveError&) {
            culprit = comm.failed_rank();
            throw;
          }
        },
        patient);
    EXPECT_EQ(culprit, odd);
    for (const std::string& error : errors)
      EXPECT_NE(
          error.find(concat("recv(float32, 8 elements, from ", (odd + 1) % 4, ") on rank ", odd)),
          std::string::npos)
          << error;
  }
}

TEST(ThreadFailureTest, AMessageThatIsNotTakenBecauseOfACollectiveIsNamed) {
  const auto errors = errors_of(2,
                                [](Communicator& comm) {
                                  if (comm.rank() == 1) return comm.barrier();
                                  for (;;) comm.send(ones({8}), 1);  // until the channel is full
                                },
                                {.deadline = std::chrono::hours(1)});
  for (const std::string& error : errors)
    EXPECT_NE(
        error.find("all ranks must make the same call; got send(float32, 8 elements, to 1) on "
                   "rank 0 and barrier() on rank 1"),
        std::string::npos)
        << error;
}

// A message that was sent before the collective is received, and the receiver then comes.
TEST(ThreadFailureTest, ARankMayReceiveWhileOthersAreInACollectiveAlready) {
  std::promise<pid_t> waits;
  run_ranks(3, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      comm.send(full({4}, 5), 2);
      waits.set_value(gettid());
    }
    if (comm.rank() == 2) {
      wait_until_asleep(waits.get_future().get());  // rank 0 is in the barrier
      const Tensor x = empty({4});
      comm.recv(x, 0);
      EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 5));
    }
    comm.barrier();
  });
}

// --- Tensors of several ranks ---

// `call` gets the memory of all ranks: 4 elements for each.
template <class Call>
void expect_shared_memory_named(std::int64_t part, DType dtype, Call call) {
  const Tensor all = zeros({3 * part}, {.dtype = dtype});
  // Each a storage of its own: threads must not mark one as changed at the same time.
  const auto slice = [&](std::int64_t begin, std::int64_t count) {
    std::byte* const at = all.raw_data() + begin * static_cast<std::int64_t>(size_bytes(dtype));
    return from_memory(at, {count}, {.dtype = dtype}, nullptr, Where::current());
  };
  const auto errors = errors_of(2, [&](Communicator& comm) { call(comm, slice, part); });
  for (const std::string& error : errors)
    EXPECT_NE(
        error.find("each rank must have tensors of its own; got the same memory on ranks 0, 1"),
        std::string::npos)
        << error;
}

TEST(ThreadFailureTest, TensorsThatRanksShareAreRefused) {
  for (const std::int64_t part : {4, 5000})
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      expect_shared_memory_named(part, dtype, [](auto& comm, auto slice, std::int64_t n) {
        comm.all_reduce(slice(0, n));
      });
      expect_shared_memory_named(part, dtype, [](auto& comm, auto slice, std::int64_t n) {
        comm.all_reduce(slice(comm.rank() * n / 2, n));  // they overlap
      });
      expect_shared_memory_named(
          part, dtype, [](auto& comm, auto slice, std::int64_t n) { comm.broadcast(slice(0, n)); });
      expect_shared_memory_named(
          part, dtype, [](auto& comm, auto slice, std::int64_t n) { comm.reduce(slice(0, n)); });
      expect_shared_memory_named(part, dtype, [](auto& comm, auto slice, std::int64_t n) {
        comm.all_gather(slice(0, 2 * n), slice(comm.rank() * n, n));
      });
      expect_shared_memory_named(part, dtype, [&](auto& comm, auto slice, std::int64_t n) {
        // Rank 1 writes what rank 0 reads.
        const Tensor other = zeros({2 * n}, {.dtype = dtype});
        comm.reduce_scatter(comm.rank() == 1 ? slice(n / 2, n) : zeros({n}, {.dtype = dtype}),
                            comm.rank() == 0 ? slice(0, 2 * n) : other);
      });
      expect_shared_memory_named(part, dtype, [&](auto& comm, auto slice, std::int64_t n) {
        const Tensor own = zeros({n}, {.dtype = dtype});
        comm.all_to_all(slice(0, n), own);
      });
    }
}

// What is only read may be shared, neighbours may touch, and empty tensors are nobody's.
TEST(ThreadFailureTest, TensorsThatRanksMayShareAreNotRefused) {
  for (const std::int64_t n : {4, 5000}) {
    const Tensor input = ones({2 * n}), results = ones({2 * n}), none = empty({0});
    run_ranks(2, [&](Communicator& comm) {
      const Tensor own = from_memory(results.raw_data() + comm.rank() * n * 4, {n},
                                     {.dtype = DType::float32}, nullptr, Where::current());
      comm.reduce_scatter(own, input);
      comm.all_reduce(own);
      const Tensor whole = empty({4 * n});
      comm.all_gather(whole, input);
      comm.all_to_all(empty({2 * n}), input);
      comm.all_reduce(none);
    });
    EXPECT_EQ(results.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(2 * n), 4));
  }
}

}  // namespace
}  // namespace ringrad
