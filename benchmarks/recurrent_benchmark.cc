// A step of a recurrent layer, forward and backward with all gradients, in float32.
//
//   BM_Lstm/T:64/B:32/input:128/hidden:256    T steps of B sequences
//   BM_Gru/...                                the same for GRU

#include <benchmark/benchmark.h>

#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/recurrent.h"

namespace ringrad {
namespace {

template <class Layer>
void run(benchmark::State& state) {
  Layer layer(state.range(2), state.range(3));
  const Tensor x = randn({state.range(0), state.range(1), state.range(2)}).set_requires_grad();
  for (auto _ : state) {
    layer.zero_grad();
    x.set_grad({});
    sum(layer(x)).backward();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * state.range(1));
}

void BM_Lstm(benchmark::State& state) { run<nn::LSTM>(state); }
void BM_Gru(benchmark::State& state) { run<nn::GRU>(state); }

BENCHMARK(BM_Lstm)->ArgNames({"T", "B", "input", "hidden"})->Args({64, 32, 128, 256});
BENCHMARK(BM_Gru)->ArgNames({"T", "B", "input", "hidden"})->Args({64, 32, 128, 256});

}  // namespace
}  // namespace ringrad
