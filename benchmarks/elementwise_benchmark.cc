// Elementwise operators.
//
//   BM_Unary/<op>/N, BM_Binary/<op>/N       an operator on N float32, not recorded
//   BM_Broadcast/<which>/N                  (N / 64, 64) with a row, a column or one element
//   BM_InPlace/add/N                        y += x
//   BM_Copy/memcpy/N                        the limit that large operators should reach
//
// bytes_per_second counts operands and result once. tape_benchmark.cc measures the cost of
// recording.

#include <benchmark/benchmark.h>

#include <cstring>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/methods/in_place.h"

namespace ringrad {
namespace {

constexpr std::int64_t kSizes[] = {1, 1'000, 100'000, 10'000'000};

struct UnaryRow {
  const char* name;
  Tensor (*op)(const Tensor&);
};

const UnaryRow kUnary[] = {
    {"relu", [](const Tensor& x) { return relu(x); }},
    {"mul_number", [](const Tensor& x) { return x * 2; }},
    {"sqrt", [](const Tensor& x) { return sqrt(x); }},
    {"exp", [](const Tensor& x) { return exp(x); }},
    {"log", [](const Tensor& x) { return log(x); }},
    {"tanh", [](const Tensor& x) { return tanh(x); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"pow", [](const Tensor& x) { return pow(x, 1.5); }},
};

struct BinaryRow {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
};

const BinaryRow kBinary[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return a + b; }},
    {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }},
    {"div", [](const Tensor& a, const Tensor& b) { return a / b; }},
    {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); }},
};

void set_bytes(benchmark::State& state, std::int64_t floats_per_iteration) {
  state.SetBytesProcessed(state.iterations() * floats_per_iteration *
                          static_cast<std::int64_t>(sizeof(float)));
}

void run_unary(benchmark::State& state, const UnaryRow& row, std::int64_t n) {
  const Tensor x = full({n}, 0.5);
  for (auto _ : state) benchmark::DoNotOptimize(row.op(x));
  set_bytes(state, 2 * n);
}

void run_binary(benchmark::State& state, const BinaryRow& row, const Tensor& a, const Tensor& b) {
  for (auto _ : state) benchmark::DoNotOptimize(row.op(a, b));
  set_bytes(state, 2 * a.numel() + b.numel());
}

void run_in_place(benchmark::State& state, std::int64_t n) {
  const Tensor y = zeros({n}), x = ones({n});
  for (auto _ : state) add_(y, x);
  set_bytes(state, 3 * n);
}

void run_memcpy(benchmark::State& state, std::int64_t n) {
  const Tensor y = zeros({n}), x = ones({n});
  for (auto _ : state) {
    std::memcpy(y.raw_data(), x.raw_data(), static_cast<std::size_t>(n) * sizeof(float));
    benchmark::ClobberMemory();
  }
  set_bytes(state, 2 * n);
}

template <class Body>
void add_case(const std::string& name, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime();
}

const bool registered = [] {
  for (const std::int64_t n : kSizes) {
    const std::string size = "/N:" + std::to_string(n);
    for (const UnaryRow& row : kUnary)
      add_case("BM_Unary/cpu/float32/" + std::string(row.name) + size,
               [&row, n](benchmark::State& state) { run_unary(state, row, n); });
    for (const BinaryRow& row : kBinary)
      add_case(
          "BM_Binary/cpu/float32/" + std::string(row.name) + size,
          [&row, n](benchmark::State& state) { run_binary(state, row, ones({n}), ones({n})); });
    add_case("BM_InPlace/cpu/float32/add" + size,
             [n](benchmark::State& state) { run_in_place(state, n); });
    add_case("BM_Copy/cpu/float32/memcpy" + size,
             [n](benchmark::State& state) { run_memcpy(state, n); });
    if (n < 64) continue;
    const std::pair<const char*, Shape> others[] = {
        {"row", {64}}, {"column", {n / 64, 1}}, {"element", {}}};
    for (const auto& [which, shape] : others)
      add_case("BM_Broadcast/cpu/float32/" + std::string(which) + size,
               [n, shape = shape](benchmark::State& state) {
                 run_binary(state, kBinary[0], ones({n / 64, 64}), ones(shape));
               });
  }
  return true;
}();

}  // namespace
}  // namespace ringrad
