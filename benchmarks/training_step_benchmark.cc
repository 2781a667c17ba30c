// A whole training step: forward, backward, SGD with momentum, loss read.
//
//   BM_TrainingStep/cpu/float32/<task>/B:<batch>      the tasks of training_tasks.h
//
// items_per_second counts images. allocated_bytes is the peak of what live tensors and tape hold,
// reserved_bytes what the allocator took from the system. system_allocations is the number of
// requests to the system during the measurement; after a warm-up it should be 0.

#include <benchmark/benchmark.h>

#include "ringrad/benchmarks/training_tasks.h"
#include "ringrad/core/base/allocator.h"

namespace ringrad::bench {
namespace {

void run_training_step(benchmark::State& state, const TrainingTask& task) {
  const std::function<float()> step = task.build();
  for (int i = 0; i < 3; ++i) step();
  reset_peak_stats();
  const std::int64_t asked = allocator_stats().num_system_allocations;
  for (auto _ : state) benchmark::DoNotOptimize(step());
  const AllocatorStats stats = allocator_stats();
  state.SetItemsProcessed(state.iterations() * task.batch());
  state.counters["allocated_bytes"] = static_cast<double>(stats.peak_allocated_bytes);
  state.counters["reserved_bytes"] = static_cast<double>(stats.reserved_bytes);
  state.counters["system_allocations"] = static_cast<double>(stats.num_system_allocations - asked);
}

const bool registered = [] {
  for (const TrainingTask& task : training_tasks()) {
    const std::string name =
        "BM_TrainingStep/cpu/float32/" + task.name + "/B:" + std::to_string(task.batch());
    benchmark::RegisterBenchmark(
        name.c_str(), [&task](benchmark::State& state) { run_training_step(state, task); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace ringrad::bench
