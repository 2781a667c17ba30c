// Kernels that use the usual features - grids, barriers, shuffles, votes, atomics, shared memory,
// vector types - compiled from one source for simulated and for real devices.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/tests/num_gpus.h"

namespace ringrad {
namespace {

__global__ void saxpy(float a, const float4* x, float4* y, int count) {
  const int step = static_cast<int>(blockDim.x * gridDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
    const float4 from = x[i];
    float4 to = y[i];
    to.x += a * from.x;
    to.y += a * from.y;
    to.z += a * from.z;
    to.w += a * from.w;
    y[i] = to;
  }
}

__device__ float warp_sum(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

// One row per block, 256 threads.
__global__ void softmax_block_per_row(const float* x, float* y, int columns) {
  RINGRAD_SHARED(float, sums, [8]);
  RINGRAD_SHARED(float, total);
  const float* row = x + static_cast<std::ptrdiff_t>(blockIdx.x) * columns;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += 256) sum += expf(row[i]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();  // all partial sums are written
  if (threadIdx.x == 0) {
    total = 0;
    for (const float partial : sums) total += partial;
  }
  __syncthreads();  // the total is written
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += 256)
    y[static_cast<std::ptrdiff_t>(blockIdx.x) * columns + i] = expf(row[i]) / total;
}

// 32 x 32 tiles through shared memory, padded by a column against bank conflicts.
__global__ void transpose(const float* x, float* y, int rows, int columns) {
  RINGRAD_SHARED(float, tile, [32][33]);
  int column = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  int row = static_cast<int>(blockIdx.y * 32 + threadIdx.y);
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
  __syncthreads();  // the tile is complete before threads read it
  column = static_cast<int>(blockIdx.y * 32 + threadIdx.x);
  row = static_cast<int>(blockIdx.x * 32 + threadIdx.y);
  if (row < columns && column < rows) y[row * rows + column] = tile[threadIdx.x][threadIdx.y];
}

__global__ void histogram(const unsigned* values, int count, unsigned* bins) {
  RINGRAD_DYNAMIC_SHARED(unsigned, own);
  own[threadIdx.x] = 0;
  __syncthreads();
  const int step = static_cast<int>(blockDim.x * gridDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step)
    atomicAdd(&own[values[i] % blockDim.x], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

__global__ void count_positive(const float* x, int count, int* result) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const unsigned ballot = __ballot_sync(~0u, i < count && x[i] > 0);
  if (threadIdx.x % 32 == 0) atomicAdd(result, __popc(ballot));
}

class KernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::num_gpus() == 0) GTEST_SKIP() << "skipped: no GPU";
  }
  void TearDown() override {
    for (void* p : allocated_) EXPECT_EQ(cudaFree(p), cudaSuccess);
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    T* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, values.size() * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    allocated_.push_back(p);
    return p;
  }
  template <class T>
  std::vector<T> download(const T* p, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  std::vector<void*> allocated_;
};

std::vector<float> some_numbers(int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return values;
}

TEST_F(KernelsTest, SaxpyLoadsVectors) {
  const std::vector<float> numbers = some_numbers(4000);
  std::vector<float4> x(1000), y(1000, {1, 2, 3, 4});
  for (std::size_t i = 0; i < 1000; ++i)
    x[i] = {numbers[4 * i], numbers[4 * i + 1], numbers[4 * i + 2], numbers[4 * i + 3]};
  float4* result = upload(y);
  ASSERT_EQ(launch({"saxpy", 3, 128}, saxpy, 2.0f, upload(x), result, 1000), cudaSuccess);
  const auto got = download(result, 1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_FLOAT_EQ(got[i].x, 1 + 2 * x[i].x);
    EXPECT_FLOAT_EQ(got[i].w, 4 + 2 * x[i].w);
  }
}

TEST_F(KernelsTest, SoftmaxRowsAgreeWithDoubles) {
  constexpr int kRows = 5, kColumns = 700;
  const std::vector<float> x = some_numbers(kRows * kColumns);
  float* y = upload(std::vector<float>(x.size()));
  ASSERT_EQ(launch({"softmax", kRows, 256}, softmax_block_per_row, upload(x), y, kColumns),
            cudaSuccess);
  const auto got = download(y, x.size());
  for (int r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int c = 0; c < kColumns; ++c) sum += std::exp(static_cast<double>(x[r * kColumns + c]));
    for (int c = 0; c < kColumns; ++c)
      EXPECT_NEAR(got[r * kColumns + c], std::exp(static_cast<double>(x[r * kColumns + c])) / sum,
                  1e-8);
  }
}

TEST_F(KernelsTest, TransposeMovesEveryElement) {
  constexpr int kRows = 70, kColumns = 45;
  const std::vector<float> x = some_numbers(kRows * kColumns);
  float* y = upload(std::vector<float>(x.size()));
  ASSERT_EQ(launch({"transpose", {2, 3}, {32, 32}}, transpose, upload(x), y, kRows, kColumns),
            cudaSuccess);
  const auto got = download(y, x.size());
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) ASSERT_EQ(got[c * kRows + r], x[r * kColumns + c]);
}

TEST_F(KernelsTest, HistogramCountsWithAtomics) {
  std::vector<unsigned> values(10'000), expected(64);
  for (unsigned i = 0; i < values.size(); ++i) {
    values[i] = i * i;
    ++expected[values[i] % 64];
  }
  unsigned* bins = upload(std::vector<unsigned>(64));
  LaunchConfig config{"histogram", 7, 64};
  config.dynamic_shared_bytes = 64 * sizeof(unsigned);
  ASSERT_EQ(launch(config, histogram, upload(values), 10'000, bins), cudaSuccess);
  EXPECT_EQ(download(bins, 64), expected);
}

TEST_F(KernelsTest, BallotsCountPositives) {
  const std::vector<float> x = some_numbers(1000);
  int expected = 0;
  for (const float value : x) expected += value > 0;
  int* count = upload(std::vector<int>(1));
  ASSERT_EQ(launch({"count_positive", 8, 128}, count_positive, upload(x), 1000, count),
            cudaSuccess);
  EXPECT_EQ(download(count, 1)[0], expected);
}

// A step of a made-up training loop, captured once and replayed.
TEST_F(KernelsTest, AGraphRepeatsItsKernels) {
  float4* y = upload(std::vector<float4>(10, {0, 0, 0, 0}));
  const float4* x = upload(std::vector<float4>(10, {1, 2, 3, 4}));
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(
      launch({.name = "saxpy", .grid = 1, .block = 32, .stream = stream}, saxpy, 1.0f, x, y, 10),
      cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(download(y, 10)[9].w, 20.0f);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace ringrad
