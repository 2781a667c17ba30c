// Attention, float32, D = 64.
//
//   BM_Attention        forward, T queries and keys
//   BM_AttentionStep    forward and backward through the tape
//   BM_AttentionDecode  one query per head, S keys, as in generation with kept keys
//
// items_per_second counts multiply-adds; a causal attention counts as half of a full one.

#include <benchmark/benchmark.h>

#include "ringrad/autograd/attention/attention.h"
#include "ringrad/core/random/random.h"

namespace ringrad {
namespace {

constexpr std::int64_t kSize = 64;  // of a head

struct Inputs {
  Inputs(std::int64_t B, std::int64_t H, std::int64_t T, std::int64_t S) {
    Generator generator(1);
    q = randn({B, H, T, kSize}, {}, generator);
    k = randn({B, H, S, kSize}, {}, generator);
    v = randn({B, H, S, kSize}, {}, generator);
  }
  Tensor q, k, v;
};

// Counts `products` products of queries and keys.
void set_rate(benchmark::State& state, const Inputs& in, bool causal, int products) {
  const std::int64_t scores = in.q.numel() * in.k.shape()[2];
  state.SetItemsProcessed(state.iterations() * products * scores / (causal ? 2 : 1));
}

void BM_Attention(benchmark::State& state) {
  const Inputs in(state.range(0), state.range(1), state.range(2), state.range(2));
  const bool causal = state.range(3) != 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(scaled_dot_product_attention(in.q, in.k, in.v, {.causal = causal}));
  set_rate(state, in, causal, 2);
}

void BM_AttentionStep(benchmark::State& state) {
  const Inputs in(state.range(0), state.range(1), state.range(2), state.range(2));
  const bool causal = state.range(3) != 0;
  const Tensor grad = ones(in.q.shape());
  for (const Tensor* x : {&in.q, &in.k, &in.v}) x->set_requires_grad();
  for (auto _ : state) {
    scaled_dot_product_attention(in.q, in.k, in.v, {.causal = causal}).backward(grad);
    for (const Tensor* x : {&in.q, &in.k, &in.v}) x->set_grad({});
  }
  set_rate(state, in, causal, 7);
}

void BM_AttentionDecode(benchmark::State& state) {
  const Inputs in(state.range(0), state.range(1), 1, state.range(2));
  for (auto _ : state) benchmark::DoNotOptimize(scaled_dot_product_attention(in.q, in.k, in.v));
  set_rate(state, in, false, 2);
}

BENCHMARK(BM_Attention)
    ->ArgNames({"B", "H", "T", "causal"})
    ->Args({4, 8, 1024, 1})
    ->Args({4, 8, 1024, 0})
    ->Args({32, 4, 128, 1});
BENCHMARK(BM_AttentionStep)
    ->ArgNames({"B", "H", "T", "causal"})
    ->Args({4, 8, 1024, 1})
    ->Args({4, 8, 1024, 0})
    ->Args({32, 4, 128, 1});
BENCHMARK(BM_AttentionDecode)
    ->ArgNames({"B", "H", "S"})
    ->Args({1, 8, 1})
    ->Args({1, 8, 128})
    ->Args({1, 8, 1024})
    ->Args({8, 8, 1024});

}  // namespace
}  // namespace ringrad
