// Optimizer steps over one flat array of float32, and its norm.
//
//   BM_Sgd        p -= rate * g
//   BM_Momentum   the same with momentum and weight decay
//   BM_AdamW      Adam with decoupled decay
//   BM_L2Norm     for clipping
//
// bytes_per_second counts one read of every array and one write of every array that changes.

#include <benchmark/benchmark.h>

#include "ringrad/core/random/random.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"

namespace ringrad::kernels {
namespace {

// A step moves `arrays` times n float32.
void set_rates(benchmark::State& state, int arrays) {
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * state.range(0) * arrays *
                          static_cast<std::int64_t>(sizeof(float)));
}

struct Arrays {
  explicit Arrays(std::int64_t n) {
    Generator generator(1);
    parameters = randn({n}, {}, generator);
    gradients = randn({n}, {}, generator);
    first = zeros({n});
    second = zeros({n});
  }
  Tensor parameters, gradients, first, second;
};

void BM_Sgd(benchmark::State& state) {
  const Arrays arrays(state.range(0));
  for (auto _ : state) sgd_step(arrays.parameters, arrays.gradients, {}, {.learning_rate = 1e-6});
  set_rates(state, 3);
}

void BM_Momentum(benchmark::State& state) {
  const Arrays arrays(state.range(0));
  for (auto _ : state)
    sgd_step(arrays.parameters, arrays.gradients, arrays.first,
             {.learning_rate = 1e-6, .momentum = 0.9, .weight_decay = 1e-4});
  set_rates(state, 5);
}

void BM_AdamW(benchmark::State& state) {
  const Arrays arrays(state.range(0));
  std::int64_t step = 0;
  for (auto _ : state)
    adam_step(arrays.parameters, arrays.gradients, arrays.first, arrays.second,
              {.learning_rate = 1e-6, .weight_decay = 0.01, .decoupled = true, .step = ++step});
  set_rates(state, 7);
}

void BM_L2Norm(benchmark::State& state) {
  const Arrays arrays(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(l2_norm(arrays.gradients));
  set_rates(state, 1);
}

BENCHMARK(BM_Sgd)->ArgName("N")->Arg(335)->Arg(1'000'000);
BENCHMARK(BM_Momentum)->ArgName("N")->Arg(335)->Arg(1'000'000);
BENCHMARK(BM_AdamW)->ArgName("N")->Arg(335)->Arg(1'000'000);
BENCHMARK(BM_L2Norm)->ArgName("N")->Arg(335)->Arg(1'000'000);

}  // namespace
}  // namespace ringrad::kernels
