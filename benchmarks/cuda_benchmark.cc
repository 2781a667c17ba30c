// The operators on a GPU, compared with the memory's speed and the fastest product.
//
//   BM_<Op>/cuda/<dtype>/<extents>      the operators of cuda_operator_cases.h
//
// of_copy is the operator's speed as a share of a device-to-device copy's; flops_per_second is for
// products. Times are the device's, between two events around a batch of calls. On simulated
// devices the sizes are tiny and the times simulated: such a run only shows that everything works,
// and its context says "simulated".

#include <benchmark/benchmark.h>

#include <functional>
#include <iostream>

#include "ringrad/benchmarks/cuda_operator_cases.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::bench {
namespace {

const Device kGpu(DeviceType::cuda, 0);
constexpr int kCalls = 10;  // per pair of events

double milliseconds(const std::function<void()>& call) {
  const Stream stream = current_stream(kGpu);
  call();  // warm-up: allocations and choices that are made once
  synchronize(kGpu);
  const Event begin(stream, /*timing=*/true);
  for (int i = 0; i < kCalls; ++i) call();
  const Event end(stream, /*timing=*/true);
  end.synchronize();
  return Event::milliseconds(begin, end) / kCalls;
}

// Bytes per second of a copy, read and written bytes counted.
double copy_speed() {
  static const double speed = [] {
    const std::int64_t floats = is_cuda_simulated() ? 1 << 12 : 1 << 26;
    const Tensor from = randn({floats}, {.device = kGpu}), to = empty_like(from);
    return 8 * static_cast<double>(floats) /
           (1e-3 * milliseconds([&] { kernels::copy_(to, from); }));
  }();
  return speed;
}

void run(benchmark::State& state, const CudaOperatorCase& one) {
  const CudaWork work = one.make();
  double seconds = 0;
  for (auto _ : state) {
    const double once = 1e-3 * milliseconds(work.call);
    state.SetIterationTime(once);
    seconds += once;
  }
  const auto rate = [&](double amount) {
    return amount * static_cast<double>(state.iterations()) / seconds;
  };
  if (work.bytes > 0) {
    state.counters["bytes_per_second"] = rate(work.bytes);
    state.counters["of_copy"] = rate(work.bytes) / copy_speed();
  }
  if (work.flops > 0) state.counters["flops_per_second"] = rate(work.flops);
}

void register_all() {
  for (const CudaOperatorCase& one : cuda_operator_cases()) {
    auto* added = benchmark::RegisterBenchmark(one.name.c_str(),
                                               [one](benchmark::State& state) { run(state, one); });
    added->UseManualTime();
    if (is_cuda_simulated()) added->Iterations(1);
  }
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  if (ringrad::num_cuda_devices() == 0) {
    std::cerr << "cuda_benchmark: skipped: no GPU\n";
    return 0;
  }
  benchmark::AddCustomContext("gpu", ringrad::gpu_name(ringrad::bench::kGpu));
  ringrad::bench::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
