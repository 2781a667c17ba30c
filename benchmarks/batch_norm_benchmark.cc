// Batch norm at the end of a residual block, relu(batch_norm(x) + residual), with its gradients.
//
//   BM_BatchNormAddRelu_fused   one operator: the sum and ReLU happen in its passes
//   BM_BatchNormAddRelu_apart   batch_norm, then add_relu
//
// float32 on the CPU, in channels_last, the layout inside networks. For both, bytes_per_second
// counts what the fused passes read and write. To compare, interleave:
//
//   --benchmark_repetitions=15 --benchmark_enable_random_interleaving=true

#include <benchmark/benchmark.h>

#include <tuple>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad {
namespace {

void run(benchmark::State& state, bool fused) {
  const Shape shape{state.range(0), state.range(1), state.range(2), state.range(2)};
  const auto images = [&] { return kernels::to_layout(randn(shape), Layout::channels_last); };
  const std::vector<Tensor> inputs{images(), images(), ones({shape[1]}), zeros({shape[1]})};
  for (const Tensor& input : inputs) input.set_requires_grad();
  const auto& [x, residual, weight, bias] = std::tie(inputs[0], inputs[1], inputs[2], inputs[3]);
  const std::vector<Tensor> grad_outputs{images()};
  for (auto _ : state) {
    const Tensor y = fused ? batch_norm(x, weight, bias, {}, {}, {.relu = true}, residual)
                           : add_relu(batch_norm(x, weight, bias, {}, {}), residual);
    benchmark::DoNotOptimize(grad(std::vector{y}, inputs, grad_outputs));
  }
  constexpr int kTensors = 1 + 3 + 3 + 5;  // moments, y, the gradient's sums, the gradients
  state.SetBytesProcessed(state.iterations() * kTensors * x.numel() *
                          static_cast<std::int64_t>(sizeof(float)));
}

void BM_BatchNormAddRelu_fused(benchmark::State& state) { run(state, true); }
void BM_BatchNormAddRelu_apart(benchmark::State& state) { run(state, false); }

// The last blocks of ResNet-20's first and last stage, and of ResNet-50's first stage.
void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"B", "C", "H"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  benchmark->Args({64, 16, 32})->Args({64, 64, 8})->Args({8, 256, 56});
}

BENCHMARK(BM_BatchNormAddRelu_fused)->Apply(sizes);
BENCHMARK(BM_BatchNormAddRelu_apart)->Apply(sizes);

}  // namespace
}  // namespace ringrad
