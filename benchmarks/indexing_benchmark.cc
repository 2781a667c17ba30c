// Looking up and adding up by index, dropout, and the loss of a tiny network.
//
//   BM_Embedding           look-up of N tokens in a (V, C) table
//   BM_EmbeddingBackward   the gradient of the whole table
//   BM_Gather              one element per row of (N, C)
//   BM_Dropout             mask and scaling of N elements
//   BM_MseStep             mse_loss of (B, C) forward and backward through the tape
//
// bytes_per_second counts operands and results once; for a look-up, only the rows it touches.

#include <benchmark/benchmark.h>

#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/index/embedding.h"
#include "ringrad/kernels/index/gather.h"

namespace ringrad {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

struct Tokens {
  explicit Tokens(const benchmark::State& state)
      : V(state.range(0)), C(state.range(1)), N(state.range(2)) {
    Generator generator(1);
    weight = randn({V, C}, {}, generator);
    indices = randint(0, V, {N}, generator);
    grad = randn({N, C}, {}, generator);
  }
  std::int64_t V, C, N;
  Tensor weight, indices, grad;
};

void BM_Embedding(benchmark::State& state) {
  const Tokens tokens(state);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::embedding(tokens.weight, tokens.indices));
  state.SetBytesProcessed(state.iterations() * 2 * tokens.N * tokens.C * kFloatBytes);
}

void BM_EmbeddingBackward(benchmark::State& state) {
  const Tokens tokens(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        kernels::embedding_backward(tokens.grad, tokens.indices, tokens.V, -1));
  state.SetBytesProcessed(state.iterations() * (tokens.N + tokens.V) * tokens.C * kFloatBytes);
}

void BM_Gather(benchmark::State& state) {
  Generator generator(1);
  const std::int64_t N = state.range(0), C = state.range(1);
  const Tensor x = randn({N, C}, {}, generator), index = randint(0, C, {N, 1}, generator);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::gather(x, 1, index));
  state.SetItemsProcessed(state.iterations() * N);
}

void BM_Dropout(benchmark::State& state) {
  Generator generator(1);
  const Tensor x = randn({state.range(0)}, {}, generator);
  for (auto _ : state) benchmark::DoNotOptimize(dropout(x, 0.5, true, generator));
  state.SetBytesProcessed(state.iterations() * x.numel() * 2 * kFloatBytes);
}

void BM_MseStep(benchmark::State& state) {
  Generator generator(1);
  const Shape shape{state.range(0), state.range(1)};
  const Tensor x = randn(shape, {.requires_grad = true}, generator);
  const Tensor targets = randn(shape, {}, generator);
  for (auto _ : state) {
    mse_loss(x, targets).backward();
    x.set_grad({});
  }
  state.SetItemsProcessed(state.iterations() * x.numel());
}

BENCHMARK(BM_Embedding)->ArgNames({"V", "C", "N"})->Args({50000, 64, 8192});
BENCHMARK(BM_EmbeddingBackward)->ArgNames({"V", "C", "N"})->Args({50000, 64, 8192});
BENCHMARK(BM_Gather)->ArgNames({"N", "C"})->Args({512, 1000});
BENCHMARK(BM_Dropout)->ArgName("N")->Arg(1'000)->Arg(1'000'000);
BENCHMARK(BM_MseStep)->ArgNames({"B", "C"})->Args({32, 5})->Args({1000, 1000});

}  // namespace
}  // namespace ringrad
