// NCCL itself, on real GPUs. One GPU is enough for most tests, since a group may have one rank.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "ringrad/parallel/comm/gpu/nccl_communicator.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/host/thread_communicator.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"

namespace ringrad {
namespace {

using testing::expect_exact;
using testing::expect_throws;

constexpr Collective kAll[] = {Collective::all_reduce, Collective::reduce_scatter,
                               Collective::all_gather, Collective::broadcast,
                               Collective::reduce,     Collective::all_to_all};

class NcclHardwareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (is_cuda_simulated() || testing::num_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

// As many ranks as GPUs, one GPU each.
void on_all_gpus(const std::function<void(Communicator&)>& body) {
  run_ranks(std::min(num_cuda_devices(), 8), [&](Communicator& threads) {
    auto host = threads.split(0);
    const Device gpu(DeviceType::cuda, host->rank());
    const DefaultDeviceGuard guard(gpu);
    const auto comm = with_nccl(std::move(host), gpu);
    body(*comm);
    synchronize(gpu);
  });
}

TEST_F(NcclHardwareTest, AllAreExactForAllDTypesAndOps) {
  on_all_gpus([](Communicator& comm) {
    for (const Collective collective : kAll)
      for (const DType dtype : testing::kAllDTypes)
        for (const ReduceOp op :
             {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::min, ReduceOp::max})
          for (const std::int64_t count : {0, 1, 1030})
            if (testing::is_reducible(dtype, op) &&
                (op != ReduceOp::mean || (comm.world_size() & (comm.world_size() - 1)) == 0))
              expect_exact(comm, {collective, dtype, op, 0, count});
  });
}

TEST_F(NcclHardwareTest, SubgroupsAreExact) {
  on_all_gpus([](Communicator& comm) {
    const auto part = comm.split(comm.rank() / 2);
    expect_exact(*part, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 1000});
  });
}

TEST_F(NcclHardwareTest, AnAbortBreaksTheGroup) {
  on_all_gpus([](Communicator& comm) {
    const Tensor x = ones({1000});
    comm.all_reduce(x);
    synchronize(default_device());
    comm.barrier();
    if (comm.rank() == 0) comm.abort("enough");
    EXPECT_THROW(
        {
          for (;;) comm.all_reduce(x);
        },
        CollectiveError);
    try {  // queued work may have been abandoned
      synchronize(default_device());
    } catch (const CollectiveError&) {
    }
  });
}

TEST_F(NcclHardwareTest, TwoRanksNeedTwoGpus) {
  auto hosts = make_thread_group(2);
  const auto join_on_gpu_0 = [&](int rank) {
    expect_throws<DeviceError>([&] { with_nccl(std::move(hosts[rank]), "cuda:0"); },
                               "nccl: each rank needs a GPU of its own; got the same one on ranks "
                               "0, 1");
  };
  std::thread other(join_on_gpu_0, 1);
  join_on_gpu_0(0);
  other.join();
}

}  // namespace
}  // namespace ringrad
