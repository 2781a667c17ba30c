// The suite of every backend, with tensors on GPUs.

#include <gtest/gtest.h>

#include <algorithm>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/gpu/use_mock_nccl.h"

namespace ringrad {
namespace {

class GpuBackendsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::num_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

// Ranks with a GPU each, and two ranks that share one.
TEST_F(GpuBackendsTest, ThreadsDoWhatEveryBackendDoes) {
  for (const int num_devices : {1, 2})
    run_ranks(2, [&](Communicator& comm) {
      const int devices = std::min(num_devices, num_cuda_devices());
      const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank() % devices));
      testing::run_backend_suite(comm);
    });
}

TEST_F(GpuBackendsTest, NcclDoesWhatEveryBackendDoes) {
  if (!is_cuda_simulated()) GTEST_SKIP() << "real GPUs: see nccl_hardware_test";
  testing::use_mock_nccl();
  const testing::BackendTraits traits{.min_and_max_keep_nan = false, .has_one_numbering = false};
  for (const int n : {1, 2, 3})
    testing::run_nccl_ranks(
        n, [&](Communicator& comm) { testing::run_backend_suite_with(traits, comm); });
}

}  // namespace
}  // namespace ringrad
