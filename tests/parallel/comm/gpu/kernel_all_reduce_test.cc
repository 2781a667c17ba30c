// All-reduces in one kernel per rank: their sums, their order, and how they end if a rank does not
// arrive.

#include "ringrad/parallel/comm/gpu/kernel_all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <thread>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/gpu/on_gpus.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/stall.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::expect_exact;
using testing::expect_throws;
using testing::kAllDTypes;
using testing::Stall;

constexpr DeviceAlgorithm kKernels[] = {DeviceAlgorithm::one_shot_kernel,
                                        DeviceAlgorithm::two_shot_kernel,
                                        DeviceAlgorithm::ring_kernel};

constexpr int kWorldSizes[] = {1, 2, 3, 8};

// The number of launches since construction.
class Launches {
 public:
  std::int64_t count() const {
    return static_cast<std::int64_t>(num_kernel_all_reduces() - before_);
  }

 private:
  const std::uint64_t before_ = num_kernel_all_reduces();
};

class KernelAllReduceTest : public ::testing::TestWithParam<DeviceAlgorithm> {
 protected:
  void SetUp() override {
    if (testing::num_gpus() == 0) GTEST_SKIP() << "no GPU";
  }

  // Rank r of n works on GPU r % num_devices, on a stream of its own.
  void on_gpus(int n, int num_devices, const std::function<void(Communicator&)>& body,
               GroupOptions options = {}) {
    options.device_all_reduce = GetParam();
    testing::on_gpus(
        n, num_devices,
        [&](Communicator& comm) {
          const Stream own(default_device());
          const StreamGuard on_own(own);
          body(comm);
        },
        options);
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, KernelAllReduceTest, ::testing::ValuesIn(kKernels),
                         [](const auto& kernel) {
                           return std::string(kernel.param == kKernels[0]   ? "OneShot"
                                              : kernel.param == kKernels[1] ? "TwoShot"
                                                                            : "Ring");
                         });

TEST_P(KernelAllReduceTest, IsExactForAllDTypesAndOps) {
  const Launches launches;
  std::atomic<std::int64_t> num_calls = 0;  // calls that kernels can perform
  on_gpus(3, 3, [&](Communicator& comm) {
    for (const DType dtype : kAllDTypes)
      for (const ReduceOp op :
           {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::min, ReduceOp::max})
        if (testing::is_reducible(dtype, op)) {
          expect_exact(comm, {Collective::all_reduce, dtype, op, 0, 101});
          if (dtype != DType::bool_) ++num_calls;
        }
  });
  EXPECT_EQ(launches.count(), num_calls);
}

TEST_P(KernelAllReduceTest, IsExactForAllCountsAndWorldSizes) {
  for (const int n : kWorldSizes)
    for (const int num_devices : {1, 8}) {
      const Launches launches;
      on_gpus(n, num_devices, [](Communicator& comm) {
        for (const std::int64_t count : {0, 1, 3, 4, 5, 17, 1000, 5000})
          expect_exact(comm, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, count});
      });
      EXPECT_EQ(launches.count(), 8 * n);
    }
}

// Calls need more or fewer blocks than the previous call. In between are calls too large for
// kernels.
TEST_P(KernelAllReduceTest, CallsOfAllSizesFollowEachOther) {
  const Launches launches;
  on_gpus(2, 2,
          [](Communicator& comm) {
            for (const std::int64_t count : {40'000, 3, 20'000, 50, 100'000, 40'000, 1})
              for (const DType dtype : {DType::float32, DType::bfloat16})
                expect_exact(comm, {Collective::all_reduce, dtype, ReduceOp::sum, 0, count});
          },
          {.kernel_bytes = 160'000});
  EXPECT_EQ(launches.count(), 2 * (2 * 7 - 2));  // 100'000 are too many for both dtypes
}

TEST_P(KernelAllReduceTest, IsExactForMisalignedTensors) {
  const Launches launches;
  on_gpus(2, 2, [](Communicator& comm) { testing::expect_exact_if_misaligned(comm); });
  EXPECT_GT(launches.count(), 0);
}

// One-shot and two-shot add in rank order in float32 and round once. The ring gives the same bits
// on all ranks.
TEST_P(KernelAllReduceTest, AddsInTheOrderOfItsAlgorithm) {
  constexpr int n = 4;
  constexpr std::int64_t kCount = 3000;
  for (const DType dtype : {DType::float32, DType::float16}) {
    const auto value = [](int rank, std::int64_t i) {
      return std::sin(static_cast<double>(i) * (rank + 1)) * std::exp2(i % 20 - 10);
    };
    std::vector<std::vector<float>> results(n);
    on_gpus(n, 2, [&](Communicator& comm) {
      const Tensor x = testing::make_tensor(dtype, kCount,
                                            [&](std::int64_t i) { return value(comm.rank(), i); });
      comm.all_reduce(x);
      results[comm.rank()] = x.to_vector<float>();
    });
    for (int r = 1; r < n; ++r) EXPECT_EQ(results[r], results[0]);
    if (GetParam() == DeviceAlgorithm::ring_kernel) continue;
    dispatch_dtype(dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < kCount; ++i) {
        float sum = static_cast<float>(static_cast<T>(value(0, i)));
        for (int r = 1; r < n; ++r) sum += static_cast<float>(static_cast<T>(value(r, i)));
        ASSERT_EQ(results[0][i], static_cast<float>(static_cast<T>(sum))) << dtype << ' ' << i;
      }
    });
  }
}

TEST_P(KernelAllReduceTest, NanAndSignedZerosAreTheSameOnAllRanks) {
  on_gpus(3, 3, [](Communicator& comm) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    const float own[] = {comm.rank() == 1 ? nan : 1, comm.rank() == 0 ? inf : 1,
                         comm.rank() == 0 ? inf : -inf, -0.0f};
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      const Tensor x = tensor({own[0], own[1], own[2], own[3]});
      comm.all_reduce(x, op);
      const auto got = x.to_vector<float>();
      EXPECT_TRUE(std::isnan(got[0]));
      EXPECT_EQ(got[1], op == ReduceOp::min ? 1 : inf);
      if (op == ReduceOp::sum)
        EXPECT_TRUE(std::isnan(got[2]));
      else
        EXPECT_EQ(got[2], op == ReduceOp::min ? -inf : inf);
      EXPECT_TRUE(got[3] == 0 && std::signbit(got[3]));
    }
  });
}

// Two ranks on one stream of one GPU: a kernel would wait for one that comes after it.
TEST_P(KernelAllReduceTest, RanksOnOneStreamUseThePlan) {
  const Launches launches;
  run_ranks(2,
            [](Communicator& comm) {
              const DefaultDeviceGuard guard("cuda");
              for (int i = 0; i < 3; ++i)
                expect_exact(comm, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 100});
            },
            {.device_all_reduce = GetParam()});
  EXPECT_EQ(launches.count(), 0);
}

// Memory that a group keeps on GPUs for its ranks' kernels is freed with the group.
TEST_P(KernelAllReduceTest, SubgroupsGiveTheirMemoryBack) {
  on_gpus(2, 2, [](Communicator& comm) {
    const auto bytes = [] { return allocator_stats(default_device()).allocated_bytes; };
    comm.all_reduce(ones({8}));
    comm.barrier();
    const auto before = bytes();
    for (int i = 0; i < 3; ++i) {
      comm.split(0)->all_reduce(ones({8}));
      comm.barrier();
    }
    EXPECT_EQ(bytes(), before);
    comm.barrier();
  });
}

// --- A rank has called, but its GPU does not reach the call ---

// Waits for the GPU, whatever the outcome. A one-shot needs no more of rank 0 than it has given and
// succeeds; the other algorithms fail.
void finish() {
  try {
    synchronize(default_device());
  } catch (const CollectiveError&) {
  }
}

TEST_P(KernelAllReduceTest, KernelsGiveUpAtTheDeadline) {
  Stall stall;
  on_gpus(2, 2,
          [&](Communicator& comm) {
            const Tensor x = ones({1000});
            comm.all_reduce(x);
            if (comm.rank() == 1) stall.begin();
            comm.all_reduce(x);
            if (comm.rank() == 0) {
              expect_throws<CollectiveError>(
                  [] { synchronize(default_device()); },
                  concat("all_reduce #2 on rank 0: every rank must "
                         "arrive on its GPU within ",
                         testing::kShortDeadline.count(), " s; got nothing from rank 1"));
              stall.end();
              expect_throws<CollectiveError>([&] { comm.all_reduce(x); },
                                             "its GPU gave up waiting for another rank's");
            } else {
              while (comm.failed_rank() < 0) std::this_thread::yield();
              EXPECT_THROW(comm.all_reduce(x), CollectiveError);
              finish();
            }
            EXPECT_EQ(comm.failed_rank(), 0);
          },
          {.deadline = testing::kShortDeadline});
}

// Every rank that shares the GPU gets the error, not only one of them.
TEST_P(KernelAllReduceTest, EveryRankOfAGpuIsTold) {
  Stall stall;
  std::atomic<int> num_told = 0;
  on_gpus(3, 1,
          [&](Communicator& comm) {
            const Tensor x = ones({1000});
            comm.all_reduce(x);
            if (comm.rank() == 2) stall.begin();
            comm.all_reduce(x);
            if (comm.rank() < 2) {
              expect_throws<CollectiveError>(
                  [&] { x.to_vector<float>(); },
                  concat("all_reduce #2 on rank ", comm.rank(), ": every rank must arrive"));
              ++num_told;
            } else {
              while (num_told < 2) std::this_thread::yield();
              stall.end();
            }
            finish();
          },
          {.deadline = testing::kShortDeadline});
}

TEST_P(KernelAllReduceTest, AbortEndsKernelsThatWait) {
  Stall stall;
  std::promise<void> queued, ended;  // by rank 0; fulfilled even if it fails
  on_gpus(2, 2, [&](Communicator& comm) {
    const Tensor x = ones({1000});
    comm.all_reduce(x);
    if (comm.rank() == 1) {
      stall.begin();
      comm.all_reduce(x);
      queued.get_future().wait();
      comm.abort("enough");
      ended.get_future().wait();
      stall.end();
      return finish();
    }
    EXPECT_NO_THROW(comm.all_reduce(x));
    queued.set_value();
    expect_throws<CollectiveError>([] { synchronize(default_device()); },
                                   "got a broken group while waiting for rank 1");
    ended.set_value();
  });
}

}  // namespace
}  // namespace ringrad
