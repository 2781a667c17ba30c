// Planted faults other than those of memory: each must be found, and its message must name the
// culprit.

#include <chrono>
#include <vector>

#include "ringrad/tests/sim/simulated_test.h"

namespace ringrad {
namespace {

using sim::last_report;
using testing::AllOf;
using testing::HasSubstr;

__global__ void wait_for(const unsigned* flag) {
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) __nanosleep(100);
}

__global__ void add_shared(float* p) {
  RINGRAD_SHARED(float, x, [33]);
  x[threadIdx.x] = 1;
  __syncthreads();
  p[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x + 1];
}

__attribute__((no_sanitize("integer-divide-by-zero"))) __global__ void divide_by(int* p) {
  *p = 100 / *p;
}

__global__ void wait_before_barrier() {
  if (threadIdx.x > 0) __syncthreads();
}

__global__ void poll_together(const unsigned* flag) {
  while (!__any_sync(~0u, __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0)) __nanosleep(100);
}

class FaultTest : public sim::SimulatedTest {};

TEST_F(FaultTest, RefusesStreamsAndEventsThatAreNoMore) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(last_report(), HasSubstr("the event must be one that exists"));
}

TEST_F(FaultTest, RefusesResultsWithoutAPlace) {
  EXPECT_EQ(cudaGetDevice(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDeviceCount(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDeviceProperties(nullptr, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMallocHost(static_cast<void**>(nullptr), 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemGetInfo(nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 4, cudaMemcpyDefault), cudaErrorInvalidValue);
  void* p = nullptr;
  EXPECT_EQ(cudaMallocHost(&p, ~std::size_t{0}), cudaErrorMemoryAllocation);
}

TEST_F(FaultTest, CountsStaticAndDynamicSharedMemoryTogether) {
  LaunchConfig config{"add_shared", 1, 32};
  config.dynamic_shared_bytes = 48 * 1024 - 64;
  ASSERT_EQ(launch(config, add_shared, allocate<float>(32)), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorInvalidConfiguration);
  EXPECT_THAT(last_report(), HasSubstr("49152 bytes in all"));
}

TEST_F(FaultTest, StopsADivisionByZero) {
  if (sim::kTsan) GTEST_SKIP() << "ThreadSanitizer keeps such signals for itself";
  int* p = allocate(1);
  ASSERT_EQ(cudaMemset(p, 0, sizeof(int)), cudaSuccess);
  ASSERT_EQ(launch({"divide_by", 1, 1}, divide_by, p), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(), HasSubstr("thread (0, 0, 0) divided an integer by zero"));
}

// The fault of one kernel stops the device's other kernels at once.
TEST_F(FaultTest, AFaultStopsAllKernelsOfItsDevice) {
  sim::reset({.hang_limit = std::chrono::hours(1)});  // a short one would also end the other
  unsigned* flag = allocate_zeros<unsigned>(1);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(launch({.name = "wait_for", .grid = 1, .block = 1, .stream = stream}, wait_for, flag),
            cudaSuccess);
  ASSERT_EQ(launch({"wait_before_barrier", 1, 64}, wait_before_barrier), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(), HasSubstr("divergence"));
}

TEST_F(FaultTest, WorkThatWaitsForAFailedDeviceFailsToo) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(launch({"wait_before_barrier", 1, 64}, wait_before_barrier), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(nullptr, event), cudaSuccess);
  ASSERT_EQ(launch({"wait_before_barrier", 1, 1}, wait_before_barrier), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(), HasSubstr("device 1 waited for work of device 0, which has failed"));
}

TEST_F(FaultTest, WorkThatComesAfterAFailedDevicesWorkFailsToo) {
  cudaEvent_t event = make_event();
  ASSERT_EQ(launch({"wait_before_barrier", 1, 64}, wait_before_barrier), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(nullptr, event), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(), HasSubstr("device 1 waited for work of device 0, which has failed"));
}

// The lanes meet in every round, which is no progress.
TEST_F(FaultTest, ReportsWarpsThatPollForEver) {
  sim::reset({.hang_limit = std::chrono::milliseconds(100)});
  unsigned* flag = allocate_zeros<unsigned>(1);
  ASSERT_EQ(launch({"poll_together", 1, 64}, poll_together, flag), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
  EXPECT_THAT(last_report(), HasSubstr("64 in a spin loop at fault_test.cc:"));
}

TEST_F(FaultTest, ReportsADivergentBarrier) {
  ASSERT_EQ(launch({"wait_before_barrier", 1, 64}, wait_before_barrier), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("divergence"), HasSubstr("__syncthreads() at fault_test.cc:")));
}

TEST_F(FaultTest, ReportsSpinningKernelsThatWaitForEver) {
  sim::reset({.hang_limit = std::chrono::milliseconds(100)});
  unsigned* flag = allocate_zeros<unsigned>(1);
  ASSERT_EQ(launch({"wait_for", 2, 3}, wait_for, flag), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr(" ms only spinning threads have run"),
                    HasSubstr("kernel 'wait_for' on device 0, block (0, 0, 0): 0 of 3"),
                    HasSubstr("kernel 'wait_for' on device 0, block (1, 0, 0): 0 of 3"),
                    HasSubstr("3 in a spin loop at fault_test.cc:")));
}

TEST_F(FaultTest, RefusesLaunchesBeyondTheLimits) {
  const auto grid_and_block = [](dim3 grid, dim3 block) {
    return launch({"wait_before_barrier", grid, block}, wait_before_barrier);
  };
  EXPECT_EQ(grid_and_block(0, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(grid_and_block({1, 65536}, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(grid_and_block(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_THAT(last_report(), HasSubstr("got (1025, 1, 1)"));
  EXPECT_EQ(grid_and_block(1, {32, 64}), cudaErrorInvalidConfiguration);
  LaunchConfig config{"wait_before_barrier", 1, 1};
  config.dynamic_shared_bytes = 50'000;
  EXPECT_EQ(launch(config, wait_before_barrier), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(wait_before_barrier, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 60'000),
            cudaSuccess);
  EXPECT_EQ(launch(config, wait_before_barrier), cudaSuccess);
  LaunchConfig cooperative{"wait_before_barrier", 2 * 132 + 1, 1024};
  cooperative.cooperative = true;
  EXPECT_EQ(launch(cooperative, wait_before_barrier), cudaErrorCooperativeLaunchTooLarge);
}

TEST_F(FaultTest, AFaultStaysAndOtherDevicesGoOn) {
  ASSERT_EQ(launch({"wait_before_barrier", 1, 64}, wait_before_barrier), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  int* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorLaunchFailure);
  EXPECT_EQ(launch({"wait_before_barrier", 1, 1}, wait_before_barrier), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(launch({"wait_before_barrier", 1, 1}, wait_before_barrier), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(FaultTest, OtherErrorsAreForgottenOnceAskedFor) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(FaultTest, HostFunctionsMustNotCallTheRuntime) {
  static int* p;
  static std::vector<cudaError_t> errors;
  errors.clear();
  p = allocate(1);
  ASSERT_EQ(cudaLaunchHostFunc(
                nullptr,
                [](void*) {
                  errors = {cudaDeviceSynchronize(), cudaFree(p), cudaStreamSynchronize(nullptr),
                            cudaMemset(p, 0, 4), cudaFreeAsync(p, nullptr)};
                },
                nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(errors, std::vector<cudaError_t>(5, cudaErrorNotPermitted));
  EXPECT_EQ(cudaFree(p), cudaSuccess);
}

}  // namespace
}  // namespace ringrad
