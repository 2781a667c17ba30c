#include "ringrad/parallel/comm/host/thread_communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/collective_values.h"
#include "ringrad/tests/testing.h"

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

TEST(ThreadCommunicatorTest, LargeAllReduceIsExact) {
  const std::int64_t count = (1 << 20) + 5;  // over 4 MiB: two ranks cut it into segments
  for (int n : {2, 3})
    run_ranks(n, [&](Communicator& comm) {
      const Tensor x = input_of(DType::float32, ReduceOp::sum, comm.rank(), count);
      comm.all_reduce(x);
      expect_same_bits(x, reduced_tensor(DType::float32, ReduceOp::sum, n, count));
    });
}

TEST(ThreadCommunicatorTest, GathersInPlaceOfTheOutput) {
  run_ranks(3, [](Communicator& comm) {
    const Tensor output = zeros({3, 2});
    const Tensor mine = view::select(output, 0, comm.rank());
    mine.data<float>()[1] = static_cast<float>(comm.rank() + 1);
    comm.all_gather(output, mine);
    testing::expect_close(output, {0, 1, 0, 2, 0, 3});
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

// --- Values ---

// 1 + 2^-8 + 2^-8 is a bfloat16 sum of 1.0078125; rounding after each addition would give 1.
TEST(ThreadCommunicatorTest, SixteenBitSumsAreRoundedOnce) {
  for (const std::string& algorithm : algorithm_names(Collective::all_reduce))
    run_ranks(3,
              [](Communicator& comm) {
                const Tensor x =
                    full({64}, comm.rank() == 0 ? 1.0 : 0x1p-8, {.dtype = DType::bfloat16});
                comm.all_reduce(x);
                expect_same_bits(x, full({64}, 1 + 0x1p-7, {.dtype = DType::bfloat16}));
              },
              {.all_reduce = algorithm});
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

// As a group's own state must be; the allocator of tensors aligns to 64.
TEST(ThreadCommunicatorTest, SharedMemoryIsAlignedTo128Bytes) {
  const auto comm = std::move(make_thread_group(1)[0]);
  std::vector<Tensor> kept;
  for (std::int64_t count = 0; count < 2'000; count += 50) {
    kept.push_back(comm->empty_shared({count}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.back().raw_data()) % 128, 0u) << count;
  }
}

TEST(ThreadCommunicatorTest, CountsAsAnInPlaceChange) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = ones({4});
    const auto version = x.version();
    comm.all_reduce(x);
    EXPECT_GT(x.version(), version);
  });
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
  expect_throws<ValueError>([&] { comm.reduce(matrix, -1); },
                            "reduce: root must be in [0, 1); got -1");
  expect_throws<DTypeError>([&] { comm.reduce(zeros({2}, {.dtype = DType::bool_})); },
                            "reduce: sum needs a dtype with numbers");
  expect_throws<ShapeError>([&] { comm.all_to_all(zeros({3}), zeros({2})); },
                            "all_to_all: both tensors must hold 1 equal parts; got (3,) and (2,)");
  expect_throws<ShapeError>([] { make_thread_group(2)[0]->all_to_all(zeros({3}), zeros({3})); },
                            "all_to_all: both tensors must hold 2 equal parts; got (3,) and (3,)");
  expect_throws<ValueError>(
      [&] { comm.all_to_all(view::slice(matrix, 0, 0, 1), view::slice(matrix, 0, 0, 1)); },
      "all_to_all: output and input must not share memory");
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
  expect_throws<ValueError>(
      [] { make_thread_group(2, {.links = CostModel{.gamma_s_per_byte = -1}}); },
      "the costs of links must not be negative; got gamma -1");
}

}  // namespace
}  // namespace ringrad
