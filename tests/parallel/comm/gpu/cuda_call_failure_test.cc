// A call of the CUDA runtime fails within a plan: which rank is named, and what the caller catches.
// The linker replaces two calls of the simulated runtime (--wrap).

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/tests/parallel/comm/gpu/on_gpus.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace {

thread_local bool waits_fail = false;
pid_t killed_before_opening = 0;

}  // namespace

#define REAL_WAIT "__real__Z19cudaStreamWaitEventP11CUstream_stP10CUevent_stj"
#define WRAPPED_WAIT "__wrap__Z19cudaStreamWaitEventP11CUstream_stP10CUevent_stj"
#define REAL_OPEN "__real__Z22cudaIpcOpenEventHandlePP10CUevent_st20cudaIpcEventHandle_t"
#define WRAPPED_OPEN "__wrap__Z22cudaIpcOpenEventHandlePP10CUevent_st20cudaIpcEventHandle_t"

cudaError_t real_wait(cudaStream_t, cudaEvent_t, unsigned) asm(REAL_WAIT);
cudaError_t wrapped_wait(cudaStream_t, cudaEvent_t, unsigned) asm(WRAPPED_WAIT);
cudaError_t real_open(cudaEvent_t*, cudaIpcEventHandle_t) asm(REAL_OPEN);
cudaError_t wrapped_open(cudaEvent_t*, cudaIpcEventHandle_t) asm(WRAPPED_OPEN);

cudaError_t wrapped_wait(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return waits_fail ? cudaErrorIllegalAddress : real_wait(stream, event, flags);
}

cudaError_t wrapped_open(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  if (killed_before_opening != 0) {
    kill(killed_before_opening, SIGKILL);
    // By then the killed process's files are closed.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  return real_open(event, handle);
}

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::Processes;

// Must be the first test: a process forked by one that has used a GPU cannot use it.
TEST(CudaCallFailureTest, OfADeadPeersIsItsFailure) {
  ProcessGroupOptions options;
  options.device_all_reduce = DeviceAlgorithm::plan;
  Processes processes(2, options, [](Communicator& comm) -> std::string {
    const Tensor process = full({2}, 0.0, {.dtype = DType::int64});
    process.data<std::int64_t>()[comm.rank()] = getpid();
    comm.all_reduce(process);
    const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank()));
    const Tensor x = ones({1 << 16});
    if (comm.rank() == 1) {
      comm.all_reduce(x);
      return "rank 1 must be killed";
    }
    killed_before_opening = static_cast<pid_t>(process.data<std::int64_t>()[1]);
    expect_throws<CollectiveError>([&] { comm.all_reduce(x); }, "a failure of rank 1");
    EXPECT_EQ(comm.failed_rank(), 1);
    // Memory that a GPU may still use stays until the process ends.
    std::fflush(stdout);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(processes.wait(1), -SIGKILL);
  EXPECT_EQ(processes.wait(0), 0);
}

TEST(CudaCallFailureTest, IsThrownAsItIs) {
  GroupOptions options;
  options.device_all_reduce = DeviceAlgorithm::plan;
  testing::on_gpus(
      2, 2,
      [](Communicator& comm) {
        const Tensor x = ones({1 << 16});
        if (comm.rank() == 1) {
          // Rank 0 may fail in its second call while this rank is in its first.
          const auto both = [&] {
            comm.all_reduce(x);
            comm.all_reduce(x);
          };
          return expect_throws<CollectiveError>(both, "a failure of rank 0");
        }
        comm.all_reduce(x);
        waits_fail = true;
        expect_throws<CudaError>([&] { comm.all_reduce(x); }, "cudaErrorIllegalAddress");
        waits_fail = false;
      },
      options);
}

}  // namespace
}  // namespace ringrad
