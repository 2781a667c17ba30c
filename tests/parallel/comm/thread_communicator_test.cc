#include "parallel/comm/thread_communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/view.h"
#include "parallel/comm/ranks.h"
#include "parallel/plan/direct_plan.h"
#include "tests/parallel/comm/collective_values.h"
#include "tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::input_of;
using testing::kAllDTypes;
using testing::reduced_tensor;

constexpr int kMaxRanks = 8;
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::min,
                                ReduceOp::max};

void expect_exact_all_reduce(const ThreadGroupOptions& options) {
  for (int n = 1; n <= kMaxRanks; ++n)
    run_ranks(
        n,
        [&](Communicator& comm) {
          for (DType dtype : kAllDTypes)
            for (ReduceOp op : kAllOps) {
              if (!testing::is_reducible(dtype, op)) continue;
              for (std::int64_t count : {0, 1, n - 1, n, n + 1, 2 * n + 1, 1031}) {
                SCOPED_TRACE(
                    concat(op, ' ', dtype, ' ', count, " elements, rank ", comm.rank(), " of ", n));
                const Tensor x = input_of(dtype, op, comm.rank(), count);
                comm.all_reduce(x, op);
                expect_same_bits(x, reduced_tensor(dtype, op, n, count));
              }
            }
        },
        options);
}

TEST(ThreadCommunicatorTest, RingAllReduceIsExactForAllDTypesOpsAndCounts) {
  expect_exact_all_reduce({.all_reduce = ring_all_reduce});
}

TEST(ThreadCommunicatorTest, RingAllReduceInSegmentsIsExact) {
  expect_exact_all_reduce({.all_reduce = ring_all_reduce, .segments = 3});
}

TEST(ThreadCommunicatorTest, TwoShotAllReduceIsExactForAllDTypesOpsAndCounts) {
  expect_exact_all_reduce({.all_reduce = two_shot_all_reduce});
}

TEST(ThreadCommunicatorTest, LargeAllReduceIsExact) {
  const std::int64_t count = (1 << 20) + 5;  // over 4 MiB: two ranks cut it into segments
  for (int n : {2, 3})
    run_ranks(n, [&](Communicator& comm) {
      const Tensor x = input_of(DType::float32, ReduceOp::sum, comm.rank(), count);
      comm.all_reduce(x);
      expect_same_bits(x, reduced_tensor(DType::float32, ReduceOp::sum, n, count));
    });
}

TEST(ThreadCommunicatorTest, ReduceScatterGivesEachRankItsExactPart) {
  for (int n = 1; n <= kMaxRanks; ++n)
    run_ranks(n, [&](Communicator& comm) {
      for (DType dtype : kAllDTypes)
        for (ReduceOp op : kAllOps) {
          if (!testing::is_reducible(dtype, op)) continue;
          for (std::int64_t part : {0, 1, 3, 257}) {
            const Tensor input = input_of(dtype, op, comm.rank(), part * n);
            const Tensor output = empty({part}, {.dtype = dtype});
            comm.reduce_scatter(output, input, op);
            expect_same_bits(output, reduced_tensor(dtype, op, n, part, part * comm.rank()));
            expect_same_bits(input, input_of(dtype, op, comm.rank(), part * n));  // not touched
          }
        }
    });
}

TEST(ThreadCommunicatorTest, AllGatherKeepsRankOrder) {
  for (int n = 1; n <= kMaxRanks; ++n)
    run_ranks(n, [&](Communicator& comm) {
      for (DType dtype : kAllDTypes)
        for (std::int64_t part : {0, 1, 3, 257}) {
          const Tensor input = input_of(dtype, ReduceOp::max, comm.rank(), part);
          const Tensor output = empty({n, part}, {.dtype = dtype});
          comm.all_gather(output, input);
          for (int r = 0; r < n; ++r)
            expect_same_bits(view::select(output, 0, r), input_of(dtype, ReduceOp::max, r, part));
        }
    });
}

TEST(ThreadCommunicatorTest, AllGatherInPlaceOfTheOutput) {
  run_ranks(3, [](Communicator& comm) {
    const Tensor output = zeros({3, 2});
    const Tensor mine = view::select(output, 0, comm.rank());
    mine.data<float>()[1] = static_cast<float>(comm.rank() + 1);
    comm.all_gather(output, mine);
    testing::expect_close(output, {0, 1, 0, 2, 0, 3});
  });
}

TEST(ThreadCommunicatorTest, BroadcastCopiesEveryRoot) {
  for (int n = 1; n <= kMaxRanks; ++n)
    run_ranks(n, [&](Communicator& comm) {
      for (int root = 0; root < n; ++root)
        for (DType dtype : kAllDTypes)
          for (std::int64_t count : {0, 1, 1000}) {
            const Tensor x = input_of(dtype, ReduceOp::max, comm.rank(), count);
            comm.broadcast(x, root);
            expect_same_bits(x, input_of(dtype, ReduceOp::max, root, count));
          }
    });
}

TEST(ThreadCommunicatorTest, NobodyPassesABarrierBeforeAllHaveCome) {
  constexpr int kRounds = 50;
  for (int n : {2, 5}) {
    std::atomic<int> arrived = 0;
    run_ranks(n, [&](Communicator& comm) {
      for (int round = 1; round <= kRounds; ++round) {
        ++arrived;
        comm.barrier();
        EXPECT_GE(arrived, n * round);
        comm.barrier();
      }
    });
  }
}

// --- Bits ---

// Random floats, whose sums do depend on the order of addition: all ranks must still agree.
TEST(ThreadCommunicatorTest, AllRanksHoldIdenticalBits) {
  for (const AllReducePlanner& planner :
       {AllReducePlanner(ring_all_reduce), AllReducePlanner(two_shot_all_reduce)})
    for (int n = 2; n <= kMaxRanks; ++n)
      for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
        std::vector<Tensor> results(n);
        run_ranks(n,
                  [&](Communicator& comm) {
                    testing::Random random(100 + comm.rank());
                    const Tensor x = random.tensor({10007}, dtype);
                    comm.all_reduce(x, ReduceOp::mean);
                    results[comm.rank()] = x;
                  },
                  {.all_reduce = planner, .segments = 2});
        for (int r = 1; r < n; ++r) expect_same_bits(results[r], results[0]);
      }
}

Tensor random_sum(int n, std::int64_t count, int segments) {
  Tensor result;
  run_ranks(n,
            [&](Communicator& comm) {
              testing::Random random(7 + comm.rank());
              const Tensor x = view::slice(random.tensor({5000}), 0, 0, count);
              comm.all_reduce(x);
              if (comm.rank() == 0) result = x;
            },
            {.all_reduce = two_shot_all_reduce, .segments = segments});
  return result;
}

TEST(ThreadCommunicatorTest, TwoShotBitsDoNotDependOnHowTheBufferIsCut) {
  const Tensor whole = random_sum(5, 5000, 1);
  expect_same_bits(random_sum(5, 5000, 7), whole);
  expect_same_bits(random_sum(5, 1234, 1), view::slice(whole, 0, 0, 1234));
}

// 1 + 2^-8 + 2^-8 is a bfloat16 sum of 1.0078125; rounding after each addition would give 1.
TEST(ThreadCommunicatorTest, SixteenBitSumsAreRoundedOnce) {
  for (const AllReducePlanner& planner :
       {AllReducePlanner(ring_all_reduce), AllReducePlanner(two_shot_all_reduce)})
    run_ranks(3,
              [](Communicator& comm) {
                const Tensor x =
                    full({64}, comm.rank() == 0 ? 1.0 : 0x1p-8, {.dtype = DType::bfloat16});
                comm.all_reduce(x);
                expect_same_bits(x, full({64}, 1 + 0x1p-7, {.dtype = DType::bfloat16}));
              },
              {.all_reduce = planner});
}

TEST(ThreadCommunicatorTest, NanReachesEveryRankUnderEveryOp) {
  for (ReduceOp op : kAllOps)
    for (int culprit = 0; culprit < 3; ++culprit)
      run_ranks(3, [&](Communicator& comm) {
        const double nan = std::numeric_limits<double>::quiet_NaN();
        const Tensor x = full({9}, comm.rank() == culprit ? nan : 1.0);
        comm.all_reduce(x, op);
        for (float value : x.to_vector<float>()) EXPECT_TRUE(std::isnan(value)) << op;
      });
}

TEST(ThreadCommunicatorTest, IntegersWrapAround) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = full({3}, std::numeric_limits<std::int64_t>::max(), {.dtype = DType::int64});
    comm.all_reduce(x);
    EXPECT_EQ(x.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-2, -2, -2}));
  });
}

TEST(ThreadCommunicatorTest, WorksOnUnalignedViews) {
  for (std::int64_t offset : {1, 3, 5})
    run_ranks(2, [&](Communicator& comm) {
      const Tensor whole = input_of(DType::float16, ReduceOp::sum, comm.rank(), 1000);
      const Tensor part = view::slice(whole, 0, offset, 1000);
      comm.all_reduce(part);
      expect_same_bits(part,
                       reduced_tensor(DType::float16, ReduceOp::sum, 2, 1000 - offset, offset));
      EXPECT_EQ(view::slice(whole, 0, 0, offset).to_vector<float>(),
                input_of(DType::float16, ReduceOp::sum, comm.rank(), offset).to_vector<float>());
    });
}

TEST(ThreadCommunicatorTest, CountsAsAnInPlaceChange) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = ones({4});
    const auto version = x.version();
    comm.all_reduce(x);
    EXPECT_GT(x.version(), version);
  });
}

// --- The user's own plan ---

CollectivePlan reduce_to_zero_then_copy(int n, int segments) {
  CollectivePlan plan;
  plan.algorithm = "mine";
  plan.world_size = n;
  plan.num_chunks = segments;
  std::vector<int> everybody;
  for (int r = 0; r < n; ++r) everybody.push_back(r);
  for (int c = 0; c < segments; ++c) {
    for (int r = 1; r < n; ++r) plan.send(c, r, c, 0);
    plan.recv_reduce(c, 0, c, everybody);
    for (int r = 1; r < n; ++r) plan.send(c, 0, c, r);
    for (int r = 1; r < n; ++r) plan.recv(c, r, c, 0);
  }
  return plan;
}

TEST(ThreadCommunicatorTest, RunsAPlanOfTheUser) {
  expect_exact_all_reduce({.all_reduce = reduce_to_zero_then_copy, .segments = 2});
}

TEST(ThreadCommunicatorTest, RefusesAPlanThatIsNotProved) {
  const auto broken = [](int n, int segments) {
    CollectivePlan plan = reduce_to_zero_then_copy(n, segments);
    plan.steps.pop_back();
    return plan;
  };
  expect_throws<ValueError>(
      [&] {
        run_ranks(2, [](Communicator& comm) { comm.all_reduce(ones({4})); },
                  {.all_reduce = broken});
      },
      "the plan 'mine' must be proved; got unmatched: step 0, rank 0 send chunk 0 -> 1");
}

TEST(ThreadCommunicatorTest, RefusesAPlanForOtherRanks) {
  expect_throws<ValueError>(
      [] {
        run_ranks(2, [](Communicator& comm) { comm.all_reduce(ones({4})); },
                  {.all_reduce = [](int, int segments) { return ring_all_reduce(3, segments); }});
      },
      "the plan must be an all_reduce of 2 ranks; got all_reduce of 3");
}

// --- Arguments ---

TEST(ThreadCommunicatorTest, ThrowsForTensorsThatDoNotFit) {
  auto comms = make_thread_group(1);
  Communicator& comm = *comms[0];
  const Tensor matrix = zeros({2, 3});
  expect_throws<ShapeError>([&] { comm.all_reduce(view::transpose(matrix, 0, 1)); },
                            "all_reduce: the tensor must be contiguous; got shape (3, 2)");
  expect_throws<ValueError>([&] { comm.broadcast(Tensor()); }, "the tensor must be defined");
  expect_throws<ShapeError>([&] { comm.all_gather(zeros({5}), zeros({2})); },
                            "all_gather: one tensor must hold 1 times the elements");
  expect_throws<DTypeError>(
      [&] { comm.reduce_scatter(zeros({2}), zeros({2}, {.dtype = DType::float64})); },
      "reduce_scatter: dtypes must be equal");
  expect_throws<DTypeError>(
      [&] { comm.all_reduce(zeros({2}, {.dtype = DType::int32}), ReduceOp::mean); },
      "all_reduce: mean needs a floating dtype; got int32");
  expect_throws<DTypeError>([&] { comm.all_reduce(zeros({2}, {.dtype = DType::bool_})); },
                            "all_reduce: sum needs a dtype with numbers");
  expect_throws<ValueError>([&] { comm.broadcast(matrix, 1); },
                            "broadcast: root must be in [0, 1); got 1");
  expect_throws<ValueError>([&] { comm.send(matrix, 0); },
                            "send: the receiver must be another rank in [0, 1); got 0");
  expect_throws<ValueError>([&] { comm.recv(matrix, -1); },
                            "recv: the sender must be another rank");
  comm.all_reduce(matrix);  // wrong arguments do not break the group
}

TEST(ThreadCommunicatorTest, ThrowsForGroupsThatCannotBe) {
  expect_throws<ValueError>([] { make_thread_group(0); }, "world_size must be in [1, 256]; got 0");
  expect_throws<ValueError>([] { make_thread_group(2, {.deadline = std::chrono::seconds(0)}); },
                            "the deadline must be positive");
  expect_throws<ValueError>([] { make_thread_group(2, {.segments = -1}); },
                            "segments must be in [0, 2048] for 2 ranks; got -1");
  expect_throws<ValueError>([] { make_thread_group(2, {.all_reduce = nullptr}); },
                            "all_reduce must be a planner; got none");
}

}  // namespace
}  // namespace ringrad
