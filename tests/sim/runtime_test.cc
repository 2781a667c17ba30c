// Programs as people write them for CUDA: allocate, copy, launch, synchronise.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "ringrad/tests/sim/simulated_test.h"

namespace ringrad {
namespace {

using sim::last_report;

__global__ void add(const float* a, const float* b, float* sum, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) sum[i] = a[i] + b[i];
}

__global__ void fill(int* p, int n, int value) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    p[i] = value;
}

// Sums 256 numbers per block.
__global__ void block_sum(const float* x, float* sums) {
  RINGRAD_SHARED(float, partial, [256]);
  partial[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (unsigned width = 128; width > 0; width /= 2) {
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

class RuntimeTest : public sim::SimulatedTest {};

TEST_F(RuntimeTest, AddsVectors) {
  std::vector<float> a(1000), b(1000), expected(1000);
  for (int i = 0; i < 1000; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = 0.5f;
    expected[i] = static_cast<float>(i) + 0.5f;
  }
  float* sum = allocate<float>(1000);
  ASSERT_EQ(launch({"add", 8, 128}, add, upload(a), upload(b), sum, 1000), cudaSuccess);
  EXPECT_EQ(download(sum, 1000), expected);
}

TEST_F(RuntimeTest, SumsInSharedMemory) {
  std::vector<float> x(1024);
  std::iota(x.begin(), x.end(), 0.0f);
  float* sums = allocate<float>(4);
  ASSERT_EQ(launch({"block_sum", 4, 256}, block_sum, upload(x), sums), cudaSuccess);
  EXPECT_EQ(download(sums, 4), (std::vector<float>{32640, 98176, 163712, 229248}));
}

TEST_F(RuntimeTest, NewMemoryIsNan) {
  const float* p = allocate<float>(100);
  for (const float value : download(p, 100)) EXPECT_TRUE(std::isnan(value));
}

// No work may run before the host waits: a program that forgets to wait must see old data.
TEST_F(RuntimeTest, WorkRunsOnlyWhileTheHostWaits) {
  if (sim::kTsan) GTEST_SKIP() << "ThreadSanitizer rightly calls this a race";
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4 * sizeof(int)), cudaSuccess);
  std::fill(pinned, pinned + 4, 7);
  int* p = allocate<int>(4);
  const cudaStream_t stream = make_stream();
  ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 32, .stream = stream}, fill, p, 4, 5),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned, p, 4 * sizeof(int), cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(pinned[0], 7);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(pinned[0], 5);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(RuntimeTest, StreamsKeepTheirOrder) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    sim::reset({.seed = seed});
    int* p = allocate(64);
    const cudaStream_t stream = make_stream();
    for (int value = 0; value < 20; ++value)
      ASSERT_EQ(
          launch({.name = "fill", .grid = 1, .block = 32, .stream = stream}, fill, p, 64, value),
          cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(download(p, 64), std::vector<int>(64, 19)) << "seed " << seed;
  }
}

TEST_F(RuntimeTest, AnEventOrdersTwoStreams) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    sim::reset({.seed = seed});
    int* p = allocate<int>(64);
    const cudaStream_t first = make_stream(), second = make_stream();
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
    ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 32, .stream = first}, fill, p, 64, 1),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second, event), cudaSuccess);
    ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 32, .stream = second}, fill, p, 64, 2),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(download(p, 64), std::vector<int>(64, 2)) << "seed " << seed;
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
}

// Without an event either order is valid, and different seeds show both.
TEST_F(RuntimeTest, SeedsChangeTheOrderOfUnorderedWork) {
  if (sim::kTsan) GTEST_SKIP() << "ThreadSanitizer rightly calls this a race";
  std::array<int, 3> seen{};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::reset({.seed = seed});
    int* p = allocate<int>(1);
    for (int value : {1, 2})
      ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 32, .stream = make_stream()}, fill, p,
                       1, value),
                cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ++seen[static_cast<std::size_t>(download(p, 1)[0])];
  }
  EXPECT_GT(seen[1], 0);
  EXPECT_GT(seen[2], 0);
}

TEST_F(RuntimeTest, TheDefaultStreamAndBlockingStreamsWaitForEachOther) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    sim::reset({.seed = seed});
    int* p = allocate<int>(1);
    cudaStream_t blocking = nullptr;
    ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 1, .stream = blocking}, fill, p, 1, 1),
              cudaSuccess);
    ASSERT_EQ(launch({"fill", 1, 1}, fill, p, 1, 2), cudaSuccess);
    ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 1, .stream = blocking}, fill, p, 1, 3),
              cudaSuccess);
    ASSERT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
    EXPECT_EQ(download(p, 1)[0], 3) << "seed " << seed;
  }
}

TEST_F(RuntimeTest, HostFunctionsRunInStreamOrder) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    sim::reset({.seed = seed});
    int value = 1;
    const cudaStream_t stream = make_stream();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(cudaLaunchHostFunc(
                    stream, [](void* p) { *static_cast<int*>(p) += 1; }, &value),
                cudaSuccess);
      ASSERT_EQ(cudaLaunchHostFunc(
                    stream, [](void* p) { *static_cast<int*>(p) *= 2; }, &value),
                cudaSuccess);
    }
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(value, 22) << "seed " << seed;
  }
}

TEST_F(RuntimeTest, CopiesBetweenDevices) {
  const int* from = upload(std::vector<int>{1, 2, 3});
  ASSERT_EQ(cudaSetDevice(3), cudaSuccess);
  int* to = allocate<int>(3);
  ASSERT_EQ(cudaMemcpyPeer(to, 3, from, 0, 3 * sizeof(int)), cudaSuccess) << last_report();
  EXPECT_EQ(download(to, 3), (std::vector<int>{1, 2, 3}));
}

TEST_F(RuntimeTest, WorkOfADestroyedStreamIsWaitedFor) {
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    int* pinned = nullptr;
    ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
    *pinned = 0;
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    ASSERT_EQ(launch({.name = "fill", .grid = 1, .block = 1, .stream = stream}, fill, pinned, 1, 5),
              cudaSuccess);
    ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(*pinned, 5);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  }
}

TEST_F(RuntimeTest, StreamOrderedMemoryComesBackBeforeItRunsOut) {
  sim::reset({.num_devices = 1, .bytes_per_device = std::size_t{1} << 20});
  const cudaStream_t stream = make_stream();
  for (int i = 0; i < 5; ++i) {
    void* p = nullptr;
    ASSERT_EQ(cudaMallocAsync(&p, 800'000, stream), cudaSuccess) << last_report();
    ASSERT_EQ(cudaFreeAsync(p, stream), cudaSuccess);
  }
}

TEST_F(RuntimeTest, ResetForgetsQueuedWork) {
  int* p = allocate<int>(4);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(launch({"fill", 1, 1}, fill, p, 4, i), cudaSuccess);
  sim::reset({.num_devices = 2});
  EXPECT_EQ(sim::num_live_allocations(), 0u);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(RuntimeTest, MemoryComesBackAndRunsOut) {
  sim::reset({.num_devices = 1, .bytes_per_device = std::size_t{1} << 20});
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 800'000), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 800'000), cudaErrorMemoryAllocation);
  EXPECT_NE(last_report().find("asked for 800000 bytes"), std::string::npos) << last_report();
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 800'000), cudaSuccess);
  EXPECT_EQ(sim::num_live_allocations(), 1u);
}

TEST_F(RuntimeTest, PointersKnowWhereTheyLie) {
  const int* p = allocate<int>(3);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, p + 1), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  int local = 0;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &local), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

}  // namespace
}  // namespace ringrad
