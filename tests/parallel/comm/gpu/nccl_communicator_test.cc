// Collectives by NCCL, here by its mock on simulated GPUs.

#include "ringrad/parallel/comm/gpu/nccl_communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ringrad/kernels/copy/fill.h"
#include "ringrad/parallel/comm/gpu/nccl_session.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/gpu/use_mock_nccl.h"

namespace ringrad {
namespace {

using testing::expect_exact;
using testing::expect_throws;
using testing::kAllDTypes;
using testing::run_nccl_ranks;

constexpr Collective kAll[] = {Collective::all_reduce, Collective::reduce_scatter,
                               Collective::all_gather, Collective::broadcast,
                               Collective::reduce,     Collective::all_to_all};

class NcclCommunicatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_cuda_simulated()) GTEST_SKIP() << "real GPUs: see nccl_hardware_test";
    testing::use_mock_nccl();
    before_ = testing::mock_nccl_state();
  }
  // No communicator is left, and NCCL's rules were kept.
  void TearDown() override {
    if (!is_cuda_simulated()) return;
    const testing::MockNcclState after = testing::mock_nccl_state();
    EXPECT_EQ(after.num_live, 0);
    EXPECT_EQ(after.num_aborted, before_.num_aborted);
    EXPECT_EQ(after.num_broken_rules, 0) << after.rule;
  }

 private:
  testing::MockNcclState before_{};
};

TEST_F(NcclCommunicatorTest, AllAreExactForAllDTypesAndOps) {
  run_nccl_ranks(3, [](Communicator& comm) {
    for (const Collective collective : kAll)
      for (const DType dtype : kAllDTypes)
        for (const ReduceOp op :
             {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::min, ReduceOp::max})
          if (testing::is_reducible(dtype, op)) expect_exact(comm, {collective, dtype, op, 1, 37});
  });
}

TEST_F(NcclCommunicatorTest, IsExactForAllCountsAndWorldSizes) {
  for (const int n : {1, 2, 3, 5, 8})
    run_nccl_ranks(n, [n](Communicator& comm) {
      for (const Collective collective : kAll)
        for (const std::int64_t count : {0, 1, n - 1, n + 1, 1030})
          expect_exact(comm, {collective, DType::float32, ReduceOp::sum, n - 1, count});
    });
}

TEST_F(NcclCommunicatorTest, GathersInPlaceOfTheOutput) {
  run_nccl_ranks(4, [](Communicator& comm) {
    const Tensor output = zeros({4, 100});
    const Tensor own = view::select(output, 0, comm.rank());
    kernels::fill_(own, comm.rank() + 1);
    comm.all_gather(output, own);
    const auto values = output.to_vector<int>();
    for (int i = 0; i < 400; ++i) ASSERT_EQ(values[i], i / 100 + 1);
  });
}

TEST_F(NcclCommunicatorTest, IsExactForMisalignedTensors) {
  run_nccl_ranks(2, [](Communicator& comm) {
    for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float64})
      for (std::int64_t offset = 0; offset < 16; offset += 5) {
        const std::int64_t begin = (offset * (1 + comm.rank())) % 16;
        const Tensor all = zeros({600}, {.dtype = dtype});
        const Tensor x = view::slice(all, 0, begin, begin + 500);
        kernels::fill_(x, comm.rank() + 1);
        comm.all_reduce(x);
        const auto values = all.to_vector<float>();
        for (std::int64_t i = 0; i < 600; ++i)
          ASSERT_EQ(values[i], i >= begin && i < begin + 500 ? 3 : 0) << dtype << ' ' << offset;
      }
  });
}

// Results are in the order of the current stream, with no wait on the host.
TEST_F(NcclCommunicatorTest, FollowsTheCurrentStream) {
  run_nccl_ranks(4, [](Communicator& comm) {
    const Stream side(default_device());
    const StreamGuard guard(side);
    const Tensor x = full({10'000}, comm.rank());
    for (int i = 0; i < 10; ++i) {
      comm.all_reduce(x, ReduceOp::max);
      kernels::fill_(x, comm.rank() + i);
    }
    comm.all_reduce(x);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(10'000, 6 + 4 * 9));
  });
}

TEST_F(NcclCommunicatorTest, NanReachesEveryRankInSums) {
  run_nccl_ranks(3, [](Communicator& comm) {
    const Tensor x = tensor({comm.rank() == 1 ? std::nanf("") : 1.0f, 2.0f});
    comm.all_reduce(x);
    const auto got = x.to_vector<float>();
    EXPECT_TRUE(std::isnan(got[0]));
    EXPECT_EQ(got[1], 6);
  });
}

TEST_F(NcclCommunicatorTest, TensorsOfTheCpuTravelByTheHost) {
  run_nccl_ranks(3, [](Communicator& comm) {
    const DefaultDeviceGuard guard(Device{});
    for (const Collective collective : kAll)
      expect_exact(comm, {collective, DType::float32, ReduceOp::sum, 1, 100});
    comm.barrier();
  });
}

// Every rank sends before it receives.
TEST_F(NcclCommunicatorTest, MessagesArriveInOrderWhoeverSendsFirst) {
  run_nccl_ranks(3, [](Communicator& comm) {
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    for (int i = 0; i < 3; ++i) comm.send(full({1000}, 10 * comm.rank() + i), next);
    for (int i = 0; i < 3; ++i) {
      const Tensor x = empty({1000});
      comm.recv(x, previous);
      EXPECT_EQ(x.to_vector<int>(), std::vector<int>(1000, 10 * previous + i));
    }
  });
}

TEST_F(NcclCommunicatorTest, SubgroupsHaveNcclToo) {
  run_nccl_ranks(5, [](Communicator& comm) {
    const auto part = comm.split(comm.rank() == 4 ? -1 : comm.rank() % 2, -comm.rank());
    EXPECT_EQ(part == nullptr, comm.rank() == 4);
    for (int i = 0; i < 3; ++i) {
      if (part) {
        EXPECT_EQ(part->rank(), comm.rank() < 2 ? 1 : 0);
        expect_exact(*part, {Collective::reduce_scatter, DType::float32, ReduceOp::sum, 0, 100});
      }
      expect_exact(comm, {Collective::all_to_all, DType::float32, ReduceOp::sum, 0, 100});
    }
  });
}

// A group may be destroyed while its last call is still running.
TEST_F(NcclCommunicatorTest, LeavesWhenItsCallsAreDone) {
  std::vector<Tensor> results(2);
  run_nccl_ranks(2, [&](Communicator& comm) {
    results[comm.rank()] = full({1000}, comm.rank() + 1);
    comm.all_reduce(results[comm.rank()]);
  });
  for (const Tensor& x : results) EXPECT_EQ(x.to_vector<int>(), std::vector<int>(1000, 3));
}

TEST_F(NcclCommunicatorTest, LooksOftenBeforeItSleeps) {
  for (const int more : {0, 1}) {
    testing::use_mock_nccl({.looks_per_call = NcclSession::kLooksBeforeSleep + more});
    run_nccl_ranks(1, [more](Communicator& comm) {
      const Tensor x = ones({8});
      comm.all_reduce(x);  // makes NCCL ready
      const std::uint64_t before = num_nccl_sleeps();
      for (int call = 0; call < 3; ++call) comm.all_reduce(x);
      EXPECT_EQ(num_nccl_sleeps() - before, 3u * static_cast<unsigned>(more));
    });
  }
}

TEST_F(NcclCommunicatorTest, RefusesTensorsOfAnotherGpu) {
  run_nccl_ranks(1, [](Communicator& comm) {
    expect_throws<DeviceError>([&] { comm.all_reduce(ones({8}, {.device = "cuda:1"})); },
                               "all_reduce: this rank works with cuda:0 and its CPU; got a tensor "
                               "on cuda:1");
    expect_throws<DeviceError>(
        [&] { comm.all_gather(empty({8}), ones({8}, {.device = Device()})); },
        "got a tensor on cpu:0");
    expect_exact(comm, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 8});
  });
}

}  // namespace
}  // namespace ringrad
