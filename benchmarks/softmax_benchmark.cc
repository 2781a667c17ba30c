// Softmax and cross entropy, with and without the tape.
//
//   BM_Softmax             forward over the last axis
//   BM_SoftmaxChannels     forward over axis 1 of (B, C, H, W): rows side by side in memory
//   BM_SoftmaxBackward     its gradient, on the raw kernel
//   BM_LogSoftmax          forward over the last axis
//   BM_CrossEntropy        forward on the raw kernel
//   BM_CrossEntropyBackward  its gradient, on the raw kernel
//   BM_CrossEntropyStep    forward and backward through the tape, into the leaf's gradient
//
// items_per_second counts elements of the input; bytes_per_second the least traffic: each operand
// read once and each result written once.

#include <benchmark/benchmark.h>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/loss/cross_entropy.h"
#include "ringrad/kernels/loss/softmax.h"

namespace ringrad {
namespace {

// Counts a pass over `numel` float32 elements of which `tensors` are read or written.
void set_rates(benchmark::State& state, std::int64_t numel, int tensors) {
  state.SetItemsProcessed(state.iterations() * numel);
  state.SetBytesProcessed(state.iterations() * numel * tensors *
                          static_cast<std::int64_t>(sizeof(float)));
}

void run_softmax(benchmark::State& state, const Shape& shape, std::int64_t axis) {
  Generator generator(1);
  const Tensor x = randn(shape, {}, generator);
  for (auto _ : state) benchmark::DoNotOptimize(softmax(x, axis));
  set_rates(state, x.numel(), 2);
}

void BM_Softmax(benchmark::State& state) {
  run_softmax(state, {state.range(0), state.range(1)}, -1);
}

void BM_SoftmaxChannels(benchmark::State& state) {
  run_softmax(state, {state.range(0), state.range(1), state.range(2), state.range(2)}, 1);
}

void BM_SoftmaxBackward(benchmark::State& state) {
  Generator generator(1);
  const Shape shape{state.range(0), state.range(1)};
  const Tensor y = softmax(randn(shape, {}, generator), -1), grad = randn(shape, {}, generator);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::softmax_backward(grad, y, -1));
  set_rates(state, y.numel(), 3);
}

void BM_LogSoftmax(benchmark::State& state) {
  Generator generator(1);
  const Tensor x = randn({state.range(0), state.range(1)}, {}, generator);
  for (auto _ : state) benchmark::DoNotOptimize(log_softmax(x, -1));
  set_rates(state, x.numel(), 2);
}

struct Batch {
  explicit Batch(const benchmark::State& state) {
    Generator generator(1);
    logits = randn({state.range(0), state.range(1)}, {}, generator);
    targets = randint(0, state.range(1), {state.range(0)}, generator);
  }
  Tensor logits, targets;
};

void BM_CrossEntropy(benchmark::State& state) {
  const Batch batch(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(kernels::cross_entropy(batch.logits, batch.targets, {}));
  set_rates(state, batch.logits.numel(), 1);
}

void BM_CrossEntropyBackward(benchmark::State& state) {
  const Batch batch(state);
  const auto forward = kernels::cross_entropy(batch.logits, batch.targets, {});
  const Tensor grad = ones({});
  for (auto _ : state)
    benchmark::DoNotOptimize(
        kernels::cross_entropy_backward(grad, batch.logits, batch.targets, forward.statistics, {}));
  set_rates(state, batch.logits.numel(), 2);
}

void BM_CrossEntropyStep(benchmark::State& state) {
  const Batch batch(state);
  batch.logits.set_requires_grad();
  for (auto _ : state) {
    cross_entropy(batch.logits, batch.targets).backward();
    batch.logits.set_grad({});
  }
  set_rates(state, batch.logits.numel(), 3);
}

BENCHMARK(BM_Softmax)
    ->ArgNames({"B", "C"})
    ->Args({128, 10})
    ->Args({512, 128})
    ->Args({512, 1000})
    ->Args({64, 50257});
BENCHMARK(BM_SoftmaxChannels)->ArgNames({"B", "C", "H"})->Args({16, 21, 64});
BENCHMARK(BM_SoftmaxBackward)->ArgNames({"B", "C"})->Args({128, 10})->Args({512, 1000});
BENCHMARK(BM_LogSoftmax)->ArgNames({"B", "C"})->Args({128, 10})->Args({512, 1000});
BENCHMARK(BM_CrossEntropy)
    ->ArgNames({"B", "C"})
    ->Args({32, 5})
    ->Args({128, 10})
    ->Args({512, 1000})
    ->Args({64, 50257});
BENCHMARK(BM_CrossEntropyBackward)
    ->ArgNames({"B", "C"})
    ->Args({32, 5})
    ->Args({128, 10})
    ->Args({512, 1000})
    ->Args({64, 50257});
BENCHMARK(BM_CrossEntropyStep)
    ->ArgNames({"B", "C"})
    ->Args({32, 5})
    ->Args({128, 10})
    ->Args({512, 1000});

}  // namespace
}  // namespace ringrad
