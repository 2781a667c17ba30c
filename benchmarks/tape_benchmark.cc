// The cost of the tape.
//
//   BM_Operator/cpu/float32/<op>/tape:0|1      one element: compute, record if tape:1, drop
//   BM_Chain/cpu/float32/<phase>/N:<length>    y = y * b, N times, on one element; the phases in
//                                              turn are forward, backward and free
//   BM_FanOut/cpu/float32/N:<uses>             backward of x + x + ... with N uses of one leaf
//   BM_LinearStep/cpu/float32/B:<rows>         forward and backward of a small linear layer
//
// For a chain, neither ns_per_node nor bytes_per_node should grow with N; bytes_per_node is what
// tape and live tensors hold after the forward pass.

#include <benchmark/benchmark.h>

#include <chrono>
#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/core/base/allocator.h"
#include "ringrad/core/random/random.h"

namespace ringrad {
namespace {

struct OperatorRow {
  const char* name;
  Tensor (*op)(const Tensor& a, const Tensor& b);
};

const OperatorRow kOperators[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return a + b; }},
    {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }},
    {"mul_number", [](const Tensor& a, const Tensor&) { return a * 2; }},
    {"relu", [](const Tensor& a, const Tensor&) { return relu(a); }},
    {"exp", [](const Tensor& a, const Tensor&) { return exp(a); }},
};

Tensor leaf(const Shape& shape) { return full(shape, 0.5).set_requires_grad(); }

void run_operator(benchmark::State& state, const OperatorRow& row, bool tape) {
  const Tensor a = leaf({1}), b = leaf({1});
  const GradMode mode(tape);
  for (auto _ : state) benchmark::DoNotOptimize(row.op(a, b));
}

enum class Phase { forward, backward, free };

// Only the named phase is timed.
void run_chain(benchmark::State& state, Phase phase, std::int64_t length) {
  const Tensor a = leaf({1}), b = leaf({1});
  double seconds = 0;
  std::int64_t bytes = 0;
  const auto timed = [&](Phase which, auto body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (which != phase) return;
    state.SetIterationTime(elapsed.count());
    seconds += elapsed.count();
  };
  for (auto _ : state) {
    Tensor y = a;
    const std::int64_t before = allocator_stats().allocated_bytes;
    timed(Phase::forward, [&] {
      for (std::int64_t i = 0; i < length; ++i) y = y * b;
    });
    bytes = allocator_stats().allocated_bytes - before;
    timed(Phase::backward, [&] { y.backward(); });
    timed(Phase::free, [&] { y = {}; });
  }
  const double nodes = static_cast<double>(length);
  state.counters["ns_per_node"] = seconds * 1e9 / (nodes * static_cast<double>(state.iterations()));
  state.counters["bytes_per_node"] = static_cast<double>(bytes) / nodes;
}

void run_fan_out(benchmark::State& state, std::int64_t uses) {
  const Tensor x = leaf({1});
  for (auto _ : state) {
    state.PauseTiming();
    x.set_grad({});
    Tensor y = x;
    for (std::int64_t i = 1; i < uses; ++i) y = y + x;
    state.ResumeTiming();
    y.backward();
  }
  state.SetItemsProcessed(state.iterations() * uses);
}

void run_linear_step(benchmark::State& state, std::int64_t rows) {
  constexpr std::int64_t kInputs = 10, kOutputs = 20;
  const Tensor x = randn({rows, kInputs}), grad = randn({rows, kOutputs});
  const Tensor weight = leaf({kOutputs, kInputs}), bias = leaf({kOutputs});
  for (auto _ : state) {
    weight.set_grad({});
    bias.set_grad({});
    linear(x, weight, bias).backward(grad);
  }
}

template <class Body>
void add_case(const std::string& name, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime();
}

const bool registered = [] {
  for (const OperatorRow& row : kOperators)
    for (const bool tape : {false, true})
      add_case("BM_Operator/cpu/float32/" + std::string(row.name) + "/tape:" + std::to_string(tape),
               [&row, tape](benchmark::State& state) { run_operator(state, row, tape); });

  const std::pair<const char*, Phase> phases[] = {
      {"forward", Phase::forward}, {"backward", Phase::backward}, {"free", Phase::free}};
  for (const auto& [name, phase] : phases)
    for (const std::int64_t length : {10'000, 100'000, 1'000'000})
      benchmark::RegisterBenchmark(
          ("BM_Chain/cpu/float32/" + std::string(name) + "/N:" + std::to_string(length)).c_str(),
          [phase = phase, length](benchmark::State& state) { run_chain(state, phase, length); })
          ->UseManualTime();

  for (const std::int64_t uses : {10, 1'000})
    add_case("BM_FanOut/cpu/float32/N:" + std::to_string(uses),
             [uses](benchmark::State& state) { run_fan_out(state, uses); });
  for (const std::int64_t rows : {1, 32})
    add_case("BM_LinearStep/cpu/float32/B:" + std::to_string(rows),
             [rows](benchmark::State& state) { run_linear_step(state, rows); });
  return true;
}();

}  // namespace
}  // namespace ringrad
