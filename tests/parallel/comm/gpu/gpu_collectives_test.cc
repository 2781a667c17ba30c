// Collectives of tensors on GPUs, which are simulated if there are no real ones: one rank per GPU
// and several ranks per GPU, by copy engines and by kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/library/shared_gpu.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/gpu/on_gpus.h"
#include "ringrad/tests/parallel/comm/patience.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::CheckedCall;
using testing::expect_exact;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::kAllDTypes;
using testing::on_gpus;

class GpuCollectivesTest : public testing::NeedsGpu {};

constexpr Collective kAll[] = {Collective::all_reduce, Collective::reduce_scatter,
                               Collective::all_gather, Collective::broadcast,
                               Collective::reduce,     Collective::all_to_all};
constexpr DeviceTransfers kTransfers[] = {DeviceTransfers::automatic, DeviceTransfers::copy_engines,
                                          DeviceTransfers::kernels};

TEST_F(GpuCollectivesTest, AllAreExactForAllDTypesAndOps) {
  for (const int num_devices : {1, 3})
    for (const DeviceTransfers transfers : kTransfers)
      on_gpus(3, num_devices,
              [](Communicator& comm) {
                for (const Collective collective : kAll)
                  for (const DType dtype : kAllDTypes)
                    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::product,
                                              ReduceOp::min, ReduceOp::max})
                      if (testing::is_reducible(dtype, op))
                        expect_exact(comm, {collective, dtype, op, 1, 37});
              },
              {.transfers = transfers});
}

TEST_F(GpuCollectivesTest, RanksSayThatTheyShareAGpu) {
  if (testing::num_gpus() < 2) GTEST_SKIP() << "one GPU";
  for (const int num_devices : {1, 2}) {
    on_gpus(2, num_devices, [num_devices](Communicator& comm) {
      EXPECT_FALSE(is_shared(default_device()));
      comm.barrier();
      expect_exact(comm, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 37});
      EXPECT_EQ(is_shared(default_device()), num_devices == 1);
      comm.barrier();
    });
    EXPECT_FALSE(is_shared("cuda:0"));
  }
}

TEST_F(GpuCollectivesTest, AreExactForAllCountsAndWorldSizes) {
  for (const int n : {1, 2, 3, 5, 8})
    for (const int num_devices : {1, 3})
      on_gpus(n, num_devices, [n](Communicator& comm) {
        for (const Collective collective : kAll)
          for (const std::int64_t count : {0, 1, n - 1, n + 1, 1030})
            expect_exact(comm, {collective, DType::float32, ReduceOp::sum, n - 1, count});
      });
}

TEST_F(GpuCollectivesTest, EveryAlgorithmIsExactInPieces) {
  for (const std::string& name : algorithm_names(Collective::all_reduce))
    for (const DeviceTransfers transfers : kTransfers) {
      GroupOptions options{.segments = 4, .transfers = transfers};
      options.all_reduce = Planner(name);
      on_gpus(
          4, 2,
          [](Communicator& comm) {
            for (const DType dtype : {DType::float32, DType::bfloat16})
              for (const std::int64_t count : {3, 5000})
                for (int again = 0; again < 3; ++again)
                  expect_exact(comm, {Collective::all_reduce, dtype, ReduceOp::mean, 0, count});
          },
          options);
    }
}

// The bits depend on the plan alone: not on the number of GPUs, on loads or copies, or on pieces.
TEST_F(GpuCollectivesTest, BitsAreThoseOfTheCpu) {
  constexpr int n = 4;
  constexpr std::int64_t kCount = 10'000;
  for (const DType dtype : {DType::float32, DType::float16}) {
    const auto input = [&](int rank) {
      return testing::make_tensor(dtype, kCount, [&](std::int64_t i) {
        return std::sin(static_cast<double>(i) * (rank + 1)) * std::exp2(i % 20 - 10);
      });
    };
    for (const char* name : {"ring", "two_shot", "halving_doubling"})
      for (const DeviceTransfers transfers : kTransfers) {
        GroupOptions options{.transfers = transfers};
        options.all_reduce = Planner(name);
        std::vector<float> expected;
        run_ranks(
            n,
            [&](Communicator& comm) {
              const Tensor x = input(comm.rank());
              comm.all_reduce(x);
              if (comm.rank() == 0) expected = x.to_vector<float>();
            },
            options);
        on_gpus(
            n, 2,
            [&](Communicator& comm) {
              const Tensor x = input(comm.rank());
              comm.all_reduce(x);
              EXPECT_EQ(x.to_vector<float>(), expected) << name << " rank " << comm.rank();
            },
            options);
      }
  }
}

// Results are in the order of the current stream, with no wait on the host.
TEST_F(GpuCollectivesTest, FollowsTheCurrentStream) {
  on_gpus(4, 4, [](Communicator& comm) {
    const Stream side(default_device());
    const StreamGuard guard(side);
    const Tensor x = full({100'000}, comm.rank());
    for (int i = 0; i < 10; ++i) {
      comm.all_reduce(x, ReduceOp::max);
      kernels::fill_(x, comm.rank() + i);  // at once, while the others may still be reading
    }
    comm.all_reduce(x);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(100'000, 6 + 4 * 9));
  });
}

TEST_F(GpuCollectivesTest, AreExactForMisalignedTensors) {
  on_gpus(2, 2, [](Communicator& comm) { testing::expect_exact_if_misaligned(comm); });
}

TEST_F(GpuCollectivesTest, SubgroupsHaveGpusToo) {
  on_gpus(4, 4, [](Communicator& comm) {
    const auto half = comm.split(comm.rank() % 2);
    for (int i = 0; i < 5; ++i) {
      expect_exact(*half, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 1000});
      expect_exact(comm, {Collective::all_to_all, DType::float32, ReduceOp::sum, 0, 1000});
    }
  });
}

TEST_F(GpuCollectivesTest, MessagesCrossGpus) {
  on_gpus(2, 2, [](Communicator& comm) {
    const Tensor x = full({1000}, comm.rank() + 1);
    if (comm.rank() == 0) return comm.send(x, 1);
    comm.recv(x, 0);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1000, 1));
  });
}

// --- Refusals and failures ---

TEST_F(GpuCollectivesTest, NamesRanksWhoseTensorsLieElsewhere) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = ones({8}, {.device = Device(comm.rank() == 0 ? "cuda" : "cpu")});
    expect_throws<CollectiveError>(
        [&] { comm.all_reduce(x); },
        "all ranks must make the same call; got all_reduce(sum, float32, "
        "8 elements on cuda) on rank 0 and all_reduce(sum, float32, 8 "
        "elements) on rank 1");
  });
}

// Freed blocks are used again, including by other ranks.
TEST_F(GpuCollectivesTest, StayExactWhenMemoryIsReused) {
  set_cuda_caching(true);
  for (const DeviceTransfers transfers : kTransfers)
    on_gpus(4, 2,
            [](Communicator& comm) {
              for (int i = 0; i < 20; ++i) {
                const Tensor other =
                    full({5000}, i);  // written, then freed while work on it may still be queued
                for (const DType dtype : {DType::float32, DType::float16})
                  expect_exact(comm, {Collective::all_reduce, dtype, ReduceOp::sum, 0, 5000});
              }
            },
            {.transfers = transfers});
}

TEST_F(GpuCollectivesTest, ARankKeepsItsGpu) {
  if (testing::num_gpus() < 2) GTEST_SKIP() << "one GPU";
  on_gpus(1, 1, [](Communicator& comm) {
    comm.all_reduce(ones({8}));
    expect_throws<DeviceError>([&] { comm.all_reduce(ones({8}, {.device = "cuda:1"})); },
                               "a rank of a group works with one GPU");
  });
}

TEST_F(GpuCollectivesTest, AFailureEndsAllRanksAndANewGroupWorks) {
  for (const int when : {0, 1, 3})
    on_gpus(4, 2, [when](Communicator& comm) {
      const Tensor x = ones({10'000});
      if (comm.rank() == 2) {
        for (int i = 0; i < when; ++i) comm.all_reduce(x);
        return comm.abort("enough");
      }
      EXPECT_THROW(
          {
            for (;;) comm.all_reduce(x);
          },
          CollectiveError);
      EXPECT_EQ(comm.failed_rank(), 2);
      const auto rest = comm.shrink();
      expect_exact(*rest, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 1000});
    });
}

TEST_F(GpuCollectivesTest, ALateRankIsNamed) {
  on_gpus(3, 3,
          [](Communicator& comm) {
            const Tensor x = ones({1000});
            comm.all_reduce(x);
            if (comm.rank() == 1) {
              while (comm.failed_rank() < 0) std::this_thread::sleep_for(milliseconds(5));
              return;
            }
            EXPECT_THROW(comm.all_reduce(x), CollectiveError);
          },
          {.deadline = testing::kShortDeadline});
}

}  // namespace
}  // namespace ringrad
