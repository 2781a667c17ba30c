// Kernels that wait for each other, where all streams of a GPU share one hardware queue
// (CUDA_DEVICE_MAX_CONNECTIONS is 1 here, see BUILD.bazel): work that one rank queues must not keep
// another rank's kernel from beginning.

#include <gtest/gtest.h>

#include "ringrad/parallel/comm/gpu/kernel_all_reduce.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/gpu/on_gpus.h"

namespace ringrad {
namespace {

TEST(HardwareQueuesTest, RanksThatShareAQueueDoNotHoldEachOthersKernelsBack) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no GPU";
  constexpr int n = 3, kCalls = 8;
  const std::uint64_t before = num_kernel_all_reduces();
  for (const DeviceAlgorithm algorithm :
       {DeviceAlgorithm::one_shot_kernel, DeviceAlgorithm::two_shot_kernel,
        DeviceAlgorithm::ring_kernel})
    testing::on_gpus(n, 1,
                     [](Communicator& comm) {
                       const Stream own(default_device());
                       const StreamGuard on_own(own);
                       for (int i = 0; i < kCalls; ++i)
                         testing::expect_exact(comm, {Collective::all_reduce, DType::float32,
                                                      ReduceOp::sum, 0, 1000});
                     },
                     {.device_all_reduce = algorithm});
  EXPECT_EQ(num_kernel_all_reduces() - before, 3u * n * kCalls);
}

}  // namespace
}  // namespace ringrad
