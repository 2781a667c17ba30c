// Planted faults: each must be found, and its message must name who did it.

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/launch.h"
#include "sim/sanitizers.h"
#include "sim/simulator.h"

namespace ringrad {
namespace {

using sim::last_report;
using testing::AllOf;
using testing::HasSubstr;

__global__ void write_at(int* p, long index) {
  if (threadIdx.x == 7 && blockIdx.x == 2) p[index] = 1;
}

__global__ void write_to(unsigned long address) { *reinterpret_cast<int*>(address) = 1; }

__global__ void read_at(const int* p, long index, int* result) { *result = p[index]; }

__global__ void wait_for(const unsigned* flag) {
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) __nanosleep(100);
}

__global__ void fill(int* p, int n, int value) {
  for (int i = 0; i < n; ++i) p[i] = value;
}

__global__ void scale(float* p, int from) { p[from + threadIdx.x] *= 2; }

__global__ void add_shared(float* p) {
  RINGRAD_SHARED(float, x, [33]);
  x[threadIdx.x] = 1;
  __syncthreads();
  p[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x + 1];
}

__attribute__((no_sanitize("integer-divide-by-zero"))) __global__ void divide_by(int* p) {
  *p = 100 / *p;
}

// Writes past the end of its 400 bytes, and then waits.
__global__ void guilty(int* p, const unsigned* flag) {
  p[101] = 1;
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) __nanosleep(100);
}
__global__ void innocent(unsigned* flag) { __atomic_store_n(flag, 1u, __ATOMIC_RELEASE); }

__global__ void wait_before_barrier() {
  if (threadIdx.x > 0) __syncthreads();
}

unsigned use_stack(unsigned depth) {
  volatile char frame[1000];
  frame[depth % 1000] = 1;
  return depth == 0 ? frame[0] : use_stack(depth - 1) + frame[1];
}

__global__ void recurse(unsigned* result) { *result = use_stack(1000); }

class FaultTest : public testing::Test {
 protected:
  FaultTest() { sim::reset({.hang_limit = std::chrono::milliseconds(100)}); }

  int* allocate(std::size_t count) {
    int* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, count * sizeof(int)), cudaSuccess);
    return p;
  }
};

// Under AddressSanitizer these end the process with its report, which is more exact.
class AddressFaultTest : public FaultTest {
 protected:
  void SetUp() override {
    if (sim::kAsan) GTEST_SKIP() << "AddressSanitizer reports these itself";
    if (sim::kTsan) GTEST_SKIP() << "all device memory is open under ThreadSanitizer";
  }
};

TEST_F(AddressFaultTest, NamesTheThreadThatWritesPastTheEnd) {
  int* p = allocate(1000);
  ASSERT_EQ(launch({"write_at", 3, 32}, write_at, p, 1024L), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("kernel 'write_at' on device 0, block (2, 0, 0), thread (7, 0, 0)"),
                    HasSubstr("wrote to 0x"),
                    HasSubstr("96 bytes after the end of an allocation of 4000 bytes")));
}

TEST_F(AddressFaultTest, FindsAWriteJustPastTheEnd) {
  int* p = allocate(1000);
  ASSERT_EQ(launch({"write_at", 3, 32}, write_at, p, 1000L), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("kernel 'write_at' on device 0 wrote byte 0 after"),
                                   HasSubstr("an allocation of 4000 bytes")));
}

TEST_F(AddressFaultTest, FindsAWriteBeforeTheBeginning) {
  int* p = allocate(500);
  ASSERT_EQ(launch({"write_at", 3, 32}, write_at, p, -1L), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("wrote byte 4 before an allocation of 2000 bytes"));
}

TEST_F(AddressFaultTest, FindsAWriteFarBeforeTheBeginning) {
  int* p = allocate(100);
  ASSERT_EQ(launch({"write_at", 3, 32}, write_at, p, -800L), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("wrote byte 3200 before an allocation of 400 bytes"));
}

TEST_F(AddressFaultTest, BlamesTheKernelThatDidIt) {
  int* p = allocate(100);
  unsigned* flag = reinterpret_cast<unsigned*>(allocate(1));
  ASSERT_EQ(cudaMemset(flag, 0, sizeof *flag), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(launch({.name = "guilty", .grid = 1, .block = 1, .stream = stream}, guilty, p, flag),
            cudaSuccess);
  ASSERT_EQ(launch({"innocent", 1, 1}, innocent, flag), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("kernel 'guilty' on device 0 wrote byte 4 after"));
}

TEST_F(AddressFaultTest, FindsAReadPastTheEnd) {
  int* p = allocate(1024);
  ASSERT_EQ(launch({"read_at", 1, 1}, read_at, p, 1024L, p), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("read from 0x"), HasSubstr("0 bytes after the end")));
}

TEST_F(AddressFaultTest, FindsUseAfterFree) {
  int *p = allocate(10), *q = allocate(10);
  ASSERT_EQ(cudaFree(q), cudaSuccess);
  ASSERT_EQ(launch({"read_at", 1, 1}, read_at, q, 3L, p), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("in a freed allocation of 40 bytes on device 0"));
}

TEST_F(AddressFaultTest, FindsAnotherDevicesMemory) {
  int* p = allocate(10);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int* own = allocate(1);
  ASSERT_EQ(launch({"read_at", 1, 1}, read_at, p, 3L, own), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("kernel 'read_at' on device 1"),
                                   HasSubstr("in an allocation of 40 bytes on device 0"),
                                   HasSubstr("no peer access")));
}

TEST_F(FaultTest, PeerAccessAllowsAnotherDevicesMemory) {
  int* p = allocate(10);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  int* own = allocate(1);
  ASSERT_EQ(launch({"read_at", 1, 1}, read_at, p, 3L, own), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

TEST_F(AddressFaultTest, FindsAnAddressThatIsNoDevices) {
  ASSERT_EQ(launch({"write_to", 1, 32}, write_to, 16ul), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("thread (0, 0, 0) wrote to 0x10"),
                                   HasSubstr("which no device owns")));
}

TEST_F(AddressFaultTest, FindsAStackThatIsUsedUp) {
  ASSERT_EQ(launch({"recurse", 1, 1}, recurse, reinterpret_cast<unsigned*>(allocate(1))),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorHardwareStackError);
  EXPECT_THAT(last_report(), HasSubstr("kernel 'recurse' on device 0, block (0, 0, 0), thread (0, "
                                       "0, 0) has used up its stack"));
}

TEST_F(AddressFaultTest, StopsAHostThatTouchesDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        volatile int* p = allocate(10);
        p[3] = 1;
      },
      "simulated CUDA: host code wrote to .*in an allocation of 40 bytes on device 0; it must be "
      "copied");
}

TEST_F(FaultTest, RefusesHostMemoryAsAnArgument) {
  int local = 0;
  EXPECT_EQ(launch({"write_at", 3, 32}, write_at, &local, 0L), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("kernel 'write_at': argument 0 points to host memory"));
}

TEST_F(FaultTest, RefusesADoubleFree) {
  int* p = allocate(10);
  ASSERT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_THAT(last_report(), HasSubstr("in a freed allocation of 40 bytes on device 0"));
  EXPECT_EQ(cudaFree(allocate(10) + 1), cudaErrorInvalidValue);
}

TEST_F(FaultTest, RefusesMemoryThatIsBeingFreed) {
  int* p = allocate(10);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(p, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(p, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_EQ(launch({"fill", 1, 1}, fill, p, 10, 1), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("which cudaFreeAsync was given before"));
}

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
  ASSERT_EQ(launch(config, add_shared, reinterpret_cast<float*>(allocate(32))), cudaSuccess);
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

// What one kernel of a device does wrong stops the others, at once.
TEST_F(FaultTest, AFaultStopsAllKernelsOfItsDevice) {
  sim::reset();
  unsigned* flag = reinterpret_cast<unsigned*>(allocate(1));
  ASSERT_EQ(cudaMemset(flag, 0, sizeof *flag), cudaSuccess);
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

TEST_F(FaultTest, FindsWorkThatIsQueuedOnMemoryBeingFreed) {
  int* p = allocate(10);
  cudaStream_t first = nullptr, second = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 1, .stream = first}, fill, p, 10, 1),
            cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(p, second), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("an allocation of 40 bytes on device 0 while kernel 'fill'"),
                    HasSubstr("nothing orders them")));
}

TEST_F(FaultTest, AllowsFreeingWhatAnEventOrders) {
  int* p = allocate(10);
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 1, .stream = first}, fill, p, 10, 1),
            cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(p, second), cudaSuccess) << last_report();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  EXPECT_EQ(sim::num_live_allocations(), 0u);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(FaultTest, RefusesCopiesThatOverrunOrPointTheWrongWay) {
  int* p = allocate(10);
  std::vector<int> host(20);
  EXPECT_EQ(cudaMemcpy(host.data(), p, 80, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("cudaMemcpy: both ranges must lie in one allocation"),
                    HasSubstr("80 bytes of which 40 are after the end of an allocation of 40")));
  sim::reset();
  p = allocate(10);
  EXPECT_EQ(cudaMemcpy(host.data(), p, 40, cudaMemcpyHostToDevice),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("destination on the host"), HasSubstr("source on device 0")));
  EXPECT_EQ(cudaMemcpyPeer(p, 1, p, 0, 40), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 40), cudaErrorInvalidValue);
}

// The reads of `scale` are of memory that nobody wrote, or that was written, as asked.
TEST_F(FaultTest, StopsArithmeticOnUnwrittenMemoryIfAsked) {
  if (sim::kTsan) GTEST_SKIP() << "ThreadSanitizer keeps such signals for itself";
  sim::reset({.trap_unwritten = true});
  auto* p = reinterpret_cast<float*>(allocate(32));
  ASSERT_EQ(cudaMemset(p, 0, 16 * sizeof(float)), cudaSuccess);
  ASSERT_EQ(launch({"scale", 1, 16}, scale, p, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  ASSERT_EQ(launch({"scale", 1, 16}, scale, p, 5), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("kernel 'scale' on device 0, block (0, 0, 0), thread (11, 0, 0)"),
                    HasSubstr("computed with a value that nobody wrote")));
}

TEST_F(FaultTest, StopsArithmeticOnUnwrittenSharedMemoryIfAsked) {
  if (sim::kTsan) GTEST_SKIP() << "ThreadSanitizer keeps such signals for itself";
  sim::reset({.trap_unwritten = true});
  auto* p = reinterpret_cast<float*>(allocate(32));
  ASSERT_EQ(launch({"add_shared", 1, 32}, add_shared, p), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(), HasSubstr("thread (31, 0, 0) computed with a value that nobody"));
}

TEST_F(FaultTest, UnwrittenMemoryIsNanOtherwise) {
  auto* p = reinterpret_cast<float*>(allocate(32));
  ASSERT_EQ(launch({"scale", 1, 16}, scale, p, 5), cudaSuccess);
  float value = 0;
  ASSERT_EQ(cudaMemcpy(&value, p + 5, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(std::isnan(value));
}

TEST_F(FaultTest, ReportsADivergentBarrier) {
  ASSERT_EQ(launch({"wait_before_barrier", 1, 64}, wait_before_barrier), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("divergence"), HasSubstr("__syncthreads() at fault_test.cc:")));
}

TEST_F(FaultTest, ReportsSpinningKernelsThatWaitForEver) {
  unsigned* flag = reinterpret_cast<unsigned*>(allocate(1));
  ASSERT_EQ(cudaMemset(flag, 0, sizeof *flag), cudaSuccess);
  ASSERT_EQ(launch({"wait_for", 2, 3}, wait_for, flag), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("deadlock: for 100 ms only spinning threads have run"),
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
