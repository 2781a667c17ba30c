// Planted faults of memory: each must be found, and its message must name the culprit.

#include <cmath>
#include <vector>

#include "ringrad/tests/sim/simulated_test.h"

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

__global__ void write_through(int* const* table, int index) { table[0][index] = 1; }

__global__ void touch_all(int* const* table, int count) {
  for (int i = 0; i < count; ++i) *table[i] = i;
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

// Writes past the end of its 400 bytes, and then waits.
__global__ void guilty(int* p, const unsigned* flag) {
  p[101] = 1;
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) __nanosleep(100);
}

__global__ void innocent(unsigned* flag) { __atomic_store_n(flag, 1u, __ATOMIC_RELEASE); }

unsigned use_stack(unsigned depth) {
  volatile char frame[1000];
  frame[depth % 1000] = 1;
  return depth == 0 ? frame[0] : use_stack(depth - 1) + frame[1];
}

__global__ void recurse(unsigned* result) { *result = use_stack(1000); }

class MemoryFaultTest : public sim::SimulatedTest {};

// Under AddressSanitizer these end the process with its report, which is more exact.
class AddressFaultTest : public sim::SimulatedTest {
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
  unsigned* flag = allocate<unsigned>(1);
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

// Between two queries all memory is closed; a write before that must not be forgotten.
TEST_F(AddressFaultTest, FindsAWriteOfAKernelThatTheHostPolls) {
  int* p = allocate(100);
  unsigned* flag = nullptr;
  ASSERT_EQ(cudaMallocHost(&flag, sizeof *flag), cudaSuccess);
  __atomic_store_n(flag, 0u, __ATOMIC_RELEASE);
  ASSERT_EQ(launch({"guilty", 1, 1}, guilty, p, flag), cudaSuccess);
  for (int i = 0; i < 3; ++i) cudaStreamQuery(nullptr);
  __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("kernel 'guilty' on device 0 wrote byte 4 after"));
  cudaFreeHost(flag);
}

// `p` is still open from the kernel before, and is not an argument of the guilty kernel.
TEST_F(AddressFaultTest, FindsAWriteThroughAPointerInMemory) {
  int* p = allocate_zeros(100);
  int** table = upload(std::vector<int*>{p});
  ASSERT_EQ(launch({"fill", 1, 1}, fill, p, 100, 1), cudaSuccess);
  ASSERT_EQ(launch({"write_through", 1, 1}, write_through, table, 100), cudaSuccess);
  ASSERT_EQ(launch({"fill", 1, 1}, fill, p, 100, 2), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("kernel 'write_through' on device 0 wrote byte 0 after"));
}

// The system has some 65,000 mappings for a process, and each open allocation takes two.
TEST_F(AddressFaultTest, AKernelMayTouchMoreAllocationsThanTheSystemHasMappings) {
  constexpr int kCount = 40'000;
  std::vector<int*> all(kCount);
  for (int*& p : all) p = allocate(1);
  int** table = upload(all);
  ASSERT_EQ(launch({"touch_all", 1, 1}, touch_all, table, kCount), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  EXPECT_EQ(download(all[kCount - 1], 1)[0], kCount - 1);
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

TEST_F(AddressFaultTest, FindsAnAddressThatIsNoDevices) {
  ASSERT_EQ(launch({"write_to", 1, 32}, write_to, 16ul), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("thread (0, 0, 0) wrote to 0x10"),
                                   HasSubstr("which no device owns")));
}

TEST_F(AddressFaultTest, FindsAStackThatIsUsedUp) {
  ASSERT_EQ(launch({"recurse", 1, 1}, recurse, allocate<unsigned>(1)), cudaSuccess);
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

TEST_F(MemoryFaultTest, PeerAccessAllowsAnotherDevicesMemory) {
  int* p = allocate(10);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  int* own = allocate(1);
  ASSERT_EQ(launch({"read_at", 1, 1}, read_at, p, 3L, own), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

TEST_F(MemoryFaultTest, PeerAccessDoesNotReachAPool) {
  int *p = nullptr, *own = nullptr;
  ASSERT_EQ(cudaMallocAsync(&p, 40, nullptr), cudaSuccess);
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  own = allocate(1);
  const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
  ASSERT_EQ(cudaMemPoolSetAccess(pool, &access, 1), cudaSuccess);
  ASSERT_EQ(launch({"read_at", 1, 1}, read_at, p, 3L, own), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  if (sim::kTsan) return;  // no fault handler there
  const cudaMemAccessDesc none{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtNone};
  ASSERT_EQ(cudaMemPoolSetAccess(pool, &none, 1), cudaSuccess);
  ASSERT_EQ(launch({"read_at", 1, 1}, read_at, p, 3L, own), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(MemoryFaultTest, RefusesHostMemoryAsAnArgument) {
  int local = 0;
  EXPECT_EQ(launch({"write_at", 3, 32}, write_at, &local, 0L), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("kernel 'write_at': argument 0 points to host memory"));
}

TEST_F(MemoryFaultTest, RefusesADoubleFree) {
  int* p = allocate(10);
  ASSERT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_THAT(last_report(), HasSubstr("in a freed allocation of 40 bytes on device 0"));
  EXPECT_EQ(cudaFree(allocate(10) + 1), cudaErrorInvalidValue);
}

TEST_F(MemoryFaultTest, RefusesMemoryThatIsBeingFreed) {
  int* p = allocate(10);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(p, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(p, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_EQ(launch({"fill", 1, 1}, fill, p, 10, 1), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), HasSubstr("which cudaFreeAsync was given before"));
}

TEST_F(MemoryFaultTest, FindsWorkThatIsQueuedOnMemoryBeingFreed) {
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

TEST_F(MemoryFaultTest, AllowsFreeingWhatAnEventOrders) {
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

TEST_F(MemoryFaultTest, RefusesCopiesThatOverrunOrPointTheWrongWay) {
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

// `scale` reads memory that was never written or memory that was, as the test asks.
TEST_F(MemoryFaultTest, StopsArithmeticOnUnwrittenMemoryIfAsked) {
  if (sim::kTsan) GTEST_SKIP() << "ThreadSanitizer keeps such signals for itself";
  sim::reset({.trap_unwritten = true});
  auto* p = allocate<float>(32);
  ASSERT_EQ(cudaMemset(p, 0, 16 * sizeof(float)), cudaSuccess);
  ASSERT_EQ(launch({"scale", 1, 16}, scale, p, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  ASSERT_EQ(launch({"scale", 1, 16}, scale, p, 5), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("kernel 'scale' on device 0, block (0, 0, 0), thread (11, 0, 0)"),
                    HasSubstr("computed with a value that was never written")));
}

TEST_F(MemoryFaultTest, StopsArithmeticOnUnwrittenSharedMemoryIfAsked) {
  if (sim::kTsan) GTEST_SKIP() << "ThreadSanitizer keeps such signals for itself";
  sim::reset({.trap_unwritten = true});
  auto* p = allocate<float>(32);
  ASSERT_EQ(launch({"add_shared", 1, 32}, add_shared, p), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(),
              HasSubstr("thread (31, 0, 0) computed with a value that was never written"));
}

TEST_F(MemoryFaultTest, UnwrittenMemoryIsNanOtherwise) {
  auto* p = allocate<float>(32);
  ASSERT_EQ(launch({"scale", 1, 16}, scale, p, 5), cudaSuccess);
  float value = 0;
  ASSERT_EQ(cudaMemcpy(&value, p + 5, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace ringrad
