// Planted races, each beside its mended twin. Under ThreadSanitizer (--config=tsan) the first must
// be reported and the second must not; in other builds there is nothing to report.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>

#include "ringrad/sim/device/launch.h"
#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/simulator.h"

namespace {
int num_reports = 0;
}

// ThreadSanitizer calls these functions: for its options, and for each of its reports.
extern "C" __attribute__((no_sanitize_thread)) const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_addresses=0:suppress_equal_stacks=0";
}
extern "C" __attribute__((no_sanitize_thread)) void __tsan_on_report(const void*) { ++num_reports; }

namespace ringrad {
namespace {

__global__ void reverse(int* x, bool with_barrier) {
  RINGRAD_SHARED(int, tile, [64]);
  tile[threadIdx.x] = x[threadIdx.x];
  if (with_barrier) __syncthreads();
  x[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void sum_over_lanes(int* x, bool with_barrier) {
  RINGRAD_SHARED(int, values, [32]);
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncwarp();
  x[threadIdx.x] = values[threadIdx.x] + values[(threadIdx.x + 1) % 32];
}

// The halves of a warp exchange values. Each half waits for itself alone, or the whole warp waits
// together.
__global__ void exchange_halves(int* x, bool together) {
  RINGRAD_SHARED(int, values, [32]);
  if (threadIdx.x < 16) values[threadIdx.x] = 1;
  __syncwarp(together ? ~0u : threadIdx.x < 16 ? 0xffffu : 0xffff0000u);
  if (threadIdx.x >= 16) x[threadIdx.x] = values[threadIdx.x - 16];
}

__global__ void count(int* counter, bool atomically) {
  if (atomically)
    atomicAdd(counter, 1);
  else
    ++*counter;
}

__global__ void fill(int* p, int value) { p[threadIdx.x] = value; }

// A message over a flag: the payload, then the flag.
__global__ void send(int* payload, unsigned* flag, bool with_release) {
  *payload = 1;
  __atomic_store_n(flag, 1, with_release ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
}
__global__ void receive(const int* payload, const unsigned* flag, int* result) {
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) __nanosleep(100);
  *result = *payload;
}

class RaceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!sim::kTsan) GTEST_SKIP() << "needs --config=tsan";
    sim::reset();
  }

  static int* allocate(int count = 64) {
    int* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, count * sizeof(int)), cudaSuccess);
    EXPECT_EQ(cudaMemset(p, 0, count * sizeof(int)), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return p;
  }
  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static int reports_of(const std::function<void()>& program) {
    num_reports = 0;
    program();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return num_reports;
  }
  static void expect_race_unless(const std::function<void(bool mended)>& program) {
    EXPECT_GT(reports_of([&] { program(false); }), 0);
    EXPECT_EQ(reports_of([&] { program(true); }), 0);
  }
};

TEST_F(RaceTest, AMissingBlockBarrierIsFound) {
  expect_race_unless([](bool mended) {
    EXPECT_EQ(launch({"reverse", 1, 64}, reverse, allocate(), mended), cudaSuccess);
  });
}

TEST_F(RaceTest, AMissingWarpBarrierIsFound) {
  expect_race_unless([](bool mended) {
    EXPECT_EQ(launch({"sum_over_lanes", 1, 32}, sum_over_lanes, allocate(), mended), cudaSuccess);
  });
}

TEST_F(RaceTest, AWarpBarrierOfTheWrongLanesIsFound) {
  expect_race_unless([](bool mended) {
    EXPECT_EQ(launch({"exchange_halves", 1, 32}, exchange_halves, allocate(), mended), cudaSuccess);
  });
}

TEST_F(RaceTest, AFillThatNobodyWaitsForIsFound) {
  expect_race_unless([](bool mended) {
    int* p = nullptr;
    ASSERT_EQ(cudaMalloc(&p, 64 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaMemset(p, 0, 64 * sizeof(int)), cudaSuccess);
    if (mended) {
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    EXPECT_EQ(launch({.name = "fill", .grid = 1, .block = 64, .stream = make_stream()}, fill, p, 1),
              cudaSuccess);
  });
}

TEST_F(RaceTest, BlocksThatWriteTheSameMemoryAreFound) {
  expect_race_unless([](bool mended) {
    EXPECT_EQ(launch({"count", 4, 1}, count, allocate(1), mended), cudaSuccess);
  });
}

TEST_F(RaceTest, AMissingEventIsFound) {
  expect_race_unless([](bool mended) {
    int* p = allocate();
    const cudaStream_t first = make_stream(), second = make_stream();
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
    EXPECT_EQ(launch({.name = "fill", .grid = 1, .block = 64, .stream = first}, fill, p, 1),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
    if (mended) {
      ASSERT_EQ(cudaStreamWaitEvent(second, event), cudaSuccess);
    }
    EXPECT_EQ(launch({.name = "fill", .grid = 1, .block = 64, .stream = second}, fill, p, 2),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  });
}

TEST_F(RaceTest, AHostThatDoesNotWaitForACopyIsFound) {
  expect_race_unless([](bool mended) {
    int* pinned = nullptr;
    ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
    int* p = allocate(1);
    const cudaStream_t stream = make_stream();
    ASSERT_EQ(cudaMemcpyAsync(pinned, p, sizeof(int), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    if (mended) {
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    }
    *pinned = 3;
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  });
}

TEST_F(RaceTest, AFlagWithoutReleaseIsFound) {
  expect_race_unless([](bool mended) {
    int *payload = allocate(1), *result = allocate(1);
    auto* flag = reinterpret_cast<unsigned*>(allocate(1));
    EXPECT_EQ(launch({.name = "receive", .grid = 1, .block = 1, .stream = make_stream()}, receive,
                     payload, flag, result),
              cudaSuccess);
    EXPECT_EQ(launch({.name = "send", .grid = 1, .block = 1, .stream = make_stream()}, send,
                     payload, flag, mended),
              cudaSuccess);
  });
}

}  // namespace
}  // namespace ringrad
