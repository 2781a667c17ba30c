// Guarantees when ranks make different calls, or give a call the same memory: every rank gets an
// error that names the calls, and the odd one out if there is one.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string_view>
#include <vector>

#include "ringrad/core/make_tensor.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/asleep.h"
#include "ringrad/tests/parallel/comm/memory/failing_threads.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::errors_of;
using testing::expect_a_new_group_works;
using testing::expect_throws;
using testing::wait_until_asleep;

// --- Ranks that call different things ---

void expect_mismatch(const std::function<void(Communicator&)>& body, std::string_view text) {
  const auto errors = errors_of(3, body);
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("all ranks must make the same call; got"), std::string::npos) << error;
    EXPECT_NE(error.find(text), std::string::npos) << error;
  }
  expect_a_new_group_works(3);
}

TEST(ThreadMismatchTest, AnotherOperationIsNamedOnEveryRank) {
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

TEST(ThreadMismatchTest, AnotherDTypeIsNamedOnEveryRank) {
  expect_mismatch(
      [](Communicator& comm) {
        comm.all_reduce(ones({8}, {.dtype = comm.rank() == 2 ? DType::int32 : DType::float32}));
      },
      "all_reduce(sum, float32, 8 elements) on ranks 0, 1 and all_reduce(sum, int32, 8 elements) "
      "on "
      "rank 2");
}

TEST(ThreadMismatchTest, AnotherCountIsNamedOnEveryRank) {
  expect_mismatch([](Communicator& comm) { comm.all_reduce(ones({8 + comm.rank() / 2})); },
                  "all_reduce(sum, float32, 9 elements) on rank 2");
}

TEST(ThreadMismatchTest, AnotherReduceOpIsNamedOnEveryRank) {
  expect_mismatch(
      [](Communicator& comm) {
        comm.all_reduce(ones({8}), comm.rank() == 0 ? ReduceOp::mean : ReduceOp::max);
      },
      "all_reduce(mean, float32, 8 elements) on rank 0 and all_reduce(max, float32, 8 elements) on "
      "ranks 1, 2");
}

TEST(ThreadMismatchTest, AnotherRootIsNamedOnEveryRank) {
  expect_mismatch([](Communicator& comm) { comm.broadcast(ones({8}), comm.rank() == 1 ? 1 : 2); },
                  "broadcast(float32, 8 elements, root 1) on rank 1");
  expect_mismatch([](Communicator& comm) { comm.reduce(ones({8}), comm.rank() == 1 ? 1 : 2); },
                  "reduce(sum, float32, 8 elements, root 1) on rank 1");
}

TEST(ThreadMismatchTest, ASkippedCallIsNamedByWhatCameInstead) {
  expect_mismatch(
      [](Communicator& comm) {
        if (comm.rank() != 0) comm.all_reduce(ones({8}));
        comm.barrier();
      },
      "barrier() on rank 0 and all_reduce(sum, float32, 8 elements) on ranks 1, 2");
}

TEST(ThreadMismatchTest, TheOddOneOutIsNamedWhoeverNotices) {
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

TEST(ThreadMismatchTest, WithoutAMajorityTheCallsAreNamedAndNoRank) {
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
TEST(ThreadMismatchTest, AMessageThatIsAwaitedInsteadOfACollectiveIsNamed) {
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

TEST(ThreadMismatchTest, AMessageThatIsNotTakenBecauseOfACollectiveIsNamed) {
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
TEST(ThreadMismatchTest, ARankMayReceiveWhileOthersAreInACollectiveAlready) {
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

TEST(ThreadMismatchTest, TensorsThatRanksShareAreRefused) {
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
TEST(ThreadMismatchTest, TensorsThatRanksMayShareAreNotRefused) {
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
