// The cost of the simulated GPU on this CPU.
//
//   BM_Threads/T:<threads per block>         ns per simulated thread of a kernel that does nothing
//   BM_Barriers/T:256/N:<barriers>           ns per thread and barrier; N:1 includes a stack each
//   BM_Shuffles/T:256/N:<shuffles>           ns per thread and shuffle
//   BM_Saxpy                                 bytes per second of a float4 kernel over 4 MiB
//   BM_LaunchAndWait                         a kernel of one thread, and the host's wait for it
//
// Wall-clock time on the CPU; it says nothing about a GPU.

#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <stdexcept>

#include "ringrad/sim/device/launch.h"
#include "ringrad/sim/simulator.h"

namespace ringrad::bench {
namespace {

constexpr unsigned kBlocks = 1000;

__global__ void do_nothing() {}

__global__ void pass_barriers(int count) {
  for (int i = 0; i < count; ++i) __syncthreads();
}

__global__ void shuffle(int count) {
  int value = static_cast<int>(threadIdx.x);
  for (int i = 0; i < count; ++i) value = __shfl_xor_sync(~0u, value, 1);
  benchmark::DoNotOptimize(value);
}

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

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(sim::last_report());
}

template <class... Parameters, class... Arguments>
void run(const char* name, unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
         Arguments... arguments) {
  check(launch({name, blocks, threads}, kernel, arguments...));
  check(cudaDeviceSynchronize());
}

// Reports the time per thing; one iteration does `things` of them.
void report_time_per_thing(benchmark::State& state, double things) {
  state.counters["per_thing"] = benchmark::Counter(
      things, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_Threads(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  for (auto _ : state) run("do_nothing", kBlocks, threads, do_nothing);
  report_time_per_thing(state, double{kBlocks} * threads);
}
BENCHMARK(BM_Threads)->ArgName("T")->Arg(32)->Arg(256)->Arg(1024);

void BM_Barriers(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  const auto barriers = static_cast<int>(state.range(1));
  for (auto _ : state) run("pass_barriers", kBlocks, threads, pass_barriers, barriers);
  report_time_per_thing(state, double{kBlocks} * threads * barriers);
}
BENCHMARK(BM_Barriers)->ArgNames({"T", "N"})->Args({256, 1})->Args({256, 100});

void BM_Shuffles(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  const auto shuffles = static_cast<int>(state.range(1));
  for (auto _ : state) run("shuffle", kBlocks, threads, shuffle, shuffles);
  report_time_per_thing(state, double{kBlocks} * threads * shuffles);
}
BENCHMARK(BM_Shuffles)->ArgNames({"T", "N"})->Args({256, 100});

void BM_Saxpy(benchmark::State& state) {
  constexpr int kCount = 1 << 18;
  float4 *x = nullptr, *y = nullptr;
  check(cudaMalloc(&x, kCount * sizeof *x));
  check(cudaMalloc(&y, kCount * sizeof *y));
  check(cudaMemset(x, 0, kCount * sizeof *x));
  check(cudaMemset(y, 0, kCount * sizeof *y));
  for (auto _ : state) run("saxpy", 64, 256, saxpy, 2.0f, x, y, kCount);
  state.SetBytesProcessed(state.iterations() * std::int64_t{3} * kCount * sizeof(float4));
  check(cudaFree(x));
  check(cudaFree(y));
}
BENCHMARK(BM_Saxpy);

void BM_LaunchAndWait(benchmark::State& state) {
  for (auto _ : state) run("do_nothing", 1, 1, do_nothing);
}
BENCHMARK(BM_LaunchAndWait);

}  // namespace
}  // namespace ringrad::bench
