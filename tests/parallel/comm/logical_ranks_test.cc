// Logical ranks on physical ranks that are threads, processes, or ranks over Gloo.

#include "ringrad/parallel/comm/host/logical_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/job/message_stream.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::expect_same_bits;
using testing::expect_throws;
using Body = std::function<void(Communicator&)>;

// Runs on threads, with the device under test as their default.
void on_logical(int num_physical, int num_logical, const Body& body,
                const LogicalRanksOptions& options = {}, const GroupOptions& physical = {}) {
  const Device device = default_device();
  run_ranks(
      num_physical,
      [&](Communicator& comm) {
        const DefaultDeviceGuard guard(device);
        run_logical_ranks(comm, num_logical, body, options);
      },
      physical);
}

// Everything that a backend must do, except messages.
void run_suite(Communicator& comm) {
  testing::expect_exact_collectives(comm);
  testing::expect_any_place(comm);
  testing::expect_identical_bits(comm, {});
  testing::expect_split(comm);
  testing::expect_differences_named(comm, {});
  testing::expect_abort_told(comm, {});
  testing::expect_second_thread_refused(comm);
}

// --- Processes must come first: these tests fork, which a program with threads must not do ---

void on_processes(int num_physical, int num_logical, const testing::Join& join, const Body& body) {
  if (default_device().is_cuda()) GTEST_SKIP() << "a process that has used a GPU cannot fork";
  testing::Processes processes(num_physical, join, [&](Communicator& comm) -> std::string {
    run_logical_ranks(comm, num_logical, body);
    return "";
  });
  for (int rank = 0; rank < num_physical; ++rank)
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

const testing::Join kSharedMemory = [](Store& store, int rank, int size) {
  return join_process_group(store, "test", rank, size, {});
};
const testing::Join kGloo = [](Store& store, int rank, int size) {
  return join_gloo_group(store, "test", rank, size, {});
};

TEST(LogicalRanksTest, ProcessesDoWhatEveryBackendDoes) {
  on_processes(2, 4, kSharedMemory, run_suite);
  on_processes(2, 4, kGloo, run_suite);
}

// The process that notices first is not to blame.
TEST(LogicalRanksTest, ProcessesBlameThatOfTheOddRankOrNobody) {
  if (default_device().is_cuda()) GTEST_SKIP() << "a process that has used a GPU cannot fork";
  const auto expect_blame = [](Communicator& comm, bool is_one_odd) {
    const Pipe pipe = make_pipe(Where::current());
    make_non_blocking(pipe.out);
    dup2(pipe.in.number(), kReportDescriptor);
    const std::string variable = report_variable(pipe.in);
    setenv(kReportVariable, variable.substr(variable.find('=') + 1).c_str(), 1);
    for (int round = 0; round < 20; ++round) {
      retract_report();
      EXPECT_THROW(run_logical_ranks(comm, 6,
                                     [&](Communicator& logical) {
                                       const int rank = logical.rank();
                                       const bool is_odd = !is_one_odd || rank == 3;
                                       logical.all_reduce(ones({is_odd ? 9 + rank : 8}));
                                     }),
                   CollectiveError);
      EXPECT_EQ(read_report(pipe.out), is_one_odd ? 1 : kNobody);
    }
  };
  for (const bool is_one_odd : {true, false}) {
    testing::Processes processes(3, kSharedMemory, [&](Communicator& comm) -> std::string {
      expect_blame(comm, is_one_odd);
      return "";
    });
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
  }
}

// --- Bits ---

constexpr int kLogical = 8;
constexpr std::int64_t kCount = 1003;

Tensor values_of(int rank, DType dtype) { return testing::odd_values(dtype, rank, kCount); }

// The result of eight ranks that add in tree order.
Tensor expected_sum(DType dtype, ReduceOp op) {
  const Device device = default_device();
  Tensor result;
  run_ranks(kLogical,
            [&](Communicator& comm) {
              const DefaultDeviceGuard guard(device);
              const Tensor x = values_of(comm.rank(), dtype);
              comm.all_reduce(x, op);
              if (comm.rank() == 0) result = to_host(x);
            },
            {.order = SumOrder::tree});
  return result;
}

// The physical groups add in rank order, so the tree must come from the logical ranks.
TEST(LogicalRanksTest, BitsAreThoseOfATreeOverThemWhateverThePhysicalRanks) {
  for (const auto& [dtype, op] :
       {std::pair(DType::float32, ReduceOp::sum), std::pair(DType::float64, ReduceOp::mean),
        std::pair(DType::float16, ReduceOp::product), std::pair(DType::bfloat16, ReduceOp::mean),
        std::pair(DType::bfloat16, ReduceOp::max)}) {
    const Tensor expected = expected_sum(dtype, op);
    for (const int num_physical : {1, 2, 4, 8})
      on_logical(num_physical, kLogical, [&, dtype = dtype, op = op](Communicator& comm) {
        SCOPED_TRACE(concat(op, ' ', dtype, " on ", num_physical));
        const Tensor x = values_of(comm.rank(), dtype), y = values_of(comm.rank(), dtype);
        comm.all_reduce(x, op);
        expect_same_bits(to_host(x), expected);
        comm.reduce(y, 5, op);
        if (comm.rank() == 5) expect_same_bits(to_host(y), expected);
      });
  }
}

// Two physical ranks have three of six logical ranks each, whose sums are no part of the tree over
// six. The subgroup leaves out rank 1 and reverses the order.
TEST(LogicalRanksTest, BitsAreThoseOfTheTreeAlsoWhereBlocksAreNoSubtrees) {
  const auto sums = [](int num_physical) {
    std::vector<Tensor> results(6);
    on_logical(num_physical, 6, [&](Communicator& comm) {
      const Tensor x = values_of(comm.rank(), DType::float32),
                   y = values_of(comm.rank(), DType::float32);
      comm.all_reduce(x);
      const auto part = comm.split(comm.rank() == 1 ? 1 : 0, -comm.rank());
      part->all_reduce(y);
      results[static_cast<std::size_t>(comm.rank())] =
          view::reshape(to_host(comm.rank() == 0 ? x : y), {kCount});
    });
    return results;
  };
  const auto expected = sums(1);
  for (const int num_physical : {2, 3, 6}) {
    const auto actual = sums(num_physical);
    for (std::size_t r = 0; r < 6; ++r) expect_same_bits(actual[r], expected[r]);
  }
}

// --- As a backend ---

TEST(LogicalRanksTest, ThreadsDoWhatEveryBackendDoes) {
  for (const auto& [num_physical, num_logical] :
       {std::pair(1, 1), std::pair(1, 3), std::pair(2, 2), std::pair(2, 4)})
    on_logical(num_physical, num_logical, run_suite);
}

TEST(LogicalRanksTest, EachHasItsNumber) {
  std::mutex mutex;
  std::vector<int> found;
  on_logical(2, 6, [&](Communicator& comm) {
    EXPECT_EQ(comm.world_size(), 6);
    const std::lock_guard lock(mutex);
    found.push_back(comm.rank());
  });
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(LogicalRanksTest, ThePhysicalGroupIsFreeAfterwards) {
  const Body body = [](Communicator& logical) {
    if (logical.rank() == 3) throw ValueError("told to fail", Where::current());
    logical.barrier();
  };
  run_ranks(2, [&](Communicator& comm) {
    for (int round = 0; round < 2; ++round) {
      EXPECT_THROW(run_logical_ranks(comm, 4, body), Error);
      testing::expect_sum_works(comm);
    }
  });
}

// --- Errors ---

TEST(LogicalRanksTest, MessagesAndShrinkingAreRefused) {
  on_logical(2, 4, [](Communicator& comm) {
    expect_throws<CollectiveError>([&] { comm.send(ones({1}), (comm.rank() + 1) % 4); },
                                   "send: logical ranks have collectives only; got a message");
    expect_throws<CollectiveError>([&] { comm.recv(ones({1}), (comm.rank() + 1) % 4); },
                                   "recv: logical ranks have collectives only; got a message");
    expect_throws<CollectiveError>([&] { comm.barrier(); }, "the group must be whole");
  });
}

TEST(LogicalRanksTest, TheNumberMustBeAMultipleAndTheSameEverywhere) {
  for (const int num_logical : {0, 3, -2, 258})
    run_ranks(2, [&](Communicator& comm) {
      expect_throws<ValueError>(
          [&] { run_logical_ranks(comm, num_logical, [](Communicator&) {}); },
          concat("there must be a multiple of 2 in [1, 256]; got ", num_logical));
    });
  run_ranks(2, [](Communicator& comm) {
    expect_throws<CollectiveError>(
        [&] { run_logical_ranks(comm, 2 + 2 * comm.rank(), [](Communicator&) {}); },
        "all ranks must ask for as many; got 2 on rank 0 and 4 on rank 1");
  });
  run_ranks(1, [](Communicator& comm) {
    expect_throws<ValueError>(
        [&] { run_logical_ranks(comm, 2, [](Communicator&) {}, {.num_threads = 0}); },
        "num_threads must be positive; got 0");
  });
}

// The culprit may or may not lead its physical rank. The waiting ranks may be on the same physical
// rank or on another.
TEST(LogicalRanksTest, AnExceptionEndsAllAndNamesItsRank) {
  for (const int culprit : {0, 3, 4, 5})
    run_ranks(2, [&](Communicator& comm) {
      const std::string error = [&] {
        try {
          run_logical_ranks(comm, 6, [&](Communicator& logical) {
            if (logical.rank() == culprit) throw ShapeError("told to fail", Where::current());
            const std::string seen = error_of([&] { logical.all_reduce(ones({3})); });
            expect_contains(seen, concat("got a failure of rank ", culprit, ": "));
            expect_contains(seen, "told to fail");
            EXPECT_EQ(logical.failed_rank(), culprit);
          });
        } catch (const ShapeError& thrown) {
          return std::string(thrown.message());
        }
        return std::string();
      }();
      EXPECT_EQ(error,
                comm.rank() == culprit / 3 ? concat("rank ", culprit, ": told to fail") : "");
      comm.barrier();
    });
}

// A reason may look like the text in which failures travel, and may end where that text continues.
TEST(LogicalRanksTest, TheReasonOfAnAbortIsWhateverItIs) {
  for (const std::string reason : {"logical rank 1", "logical rank "})
    on_logical(2, 4, [&](Communicator& comm) {
      if (comm.rank() == 3) comm.abort(reason);
      const std::string seen = error_of([&] { comm.barrier(); });
      expect_contains(seen, "got a failure of rank 3: ");
      expect_contains(seen, reason);
    });
}

TEST(LogicalRanksTest, ARankThatIsLateEndsAll) {
  for (const int late : {0, 3})
    on_logical(2, 4,
               [&](Communicator& comm) {
                 if (comm.rank() == late)
                   while (comm.failed_rank() < 0) std::this_thread::yield();
                 expect_contains(error_of([&] { comm.barrier(); }), "got no call from rank");
               },
               {.deadline = 2 * testing::kShortDeadline}, {.deadline = testing::kShortDeadline});
}

TEST(LogicalRanksTest, ARankThatLeavesEndsAll) {
  for (const int leaving : {0, 1, 3})
    on_logical(2, 4, [&](Communicator& comm) {
      if (comm.rank() == leaving) return;
      expect_contains(error_of([&] { comm.barrier(); }), "left");
    });
}

}  // namespace
}  // namespace ringrad
