// The kernel of all optimizer steps. Private to kernels/.
//
// A rule computes one element: rule(parameter, gradient, first_state, second_state) returns the new
// parameter and updates the state. A rule has `kStates` arrays of state. The first of them is not
// read if rule.fresh.

#pragma once

#include "ringrad/core/capture.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {

// Steps elements [i, i + V).
template <int V, class Rule, class T, class Math>
__device__ void step_pack(const Rule& rule, std::int64_t i, T* parameters, const T* gradients,
                          Math* first_state, Math* second_state) {
  auto& parameter = *reinterpret_cast<Pack<T, V>*>(parameters + i);
  const Pack<T, V> p = parameter, g = *reinterpret_cast<const Pack<T, V>*>(gradients + i);
  Pack<Math, V> a{}, b{};
  if constexpr (Rule::kStates > 0)
    if (!rule.fresh) a = *reinterpret_cast<const Pack<Math, V>*>(first_state + i);
  if constexpr (Rule::kStates > 1) b = *reinterpret_cast<const Pack<Math, V>*>(second_state + i);
  Pack<T, V> stepped;
#pragma unroll
  for (int k = 0; k < V; ++k)
    stepped.values[k] = T(rule(static_cast<Math>(p.values[k]), static_cast<Math>(g.values[k]),
                               a.values[k], b.values[k]));
  parameter = stepped;
  if constexpr (Rule::kStates > 0) *reinterpret_cast<Pack<Math, V>*>(first_state + i) = a;
  if constexpr (Rule::kStates > 1) *reinterpret_cast<Pack<Math, V>*>(second_state + i) = b;
}

// V neighbouring elements per thread; the last thread processes the remaining ones one by one.
// Bound: bandwidth.
// REQUIRES: all arrays are aligned for V elements
template <int V, class Rule, class T, class Math>
__global__ void step_thread_per_pack(Replayed<Rule> replayed, std::int64_t n, T* parameters,
                                     const T* gradients, Math* first_state, Math* second_state) {
  const Rule rule = replayed.place ? *replayed.place : replayed.value;
  std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V;
  if (i + V <= n) {
    step_pack<V>(rule, i, parameters, gradients, first_state, second_state);
  } else {
    for (; i < n; ++i) step_pack<1>(rule, i, parameters, gradients, first_state, second_state);
  }
}

template <class T, class Rule, class Math = MathType<T>>
void launch_step(const char* name, const Replayed<Rule>& rule, const Tensor& parameters,
                 const Tensor& gradients, const Tensor& first_state, const Tensor& second_state,
                 Where where) {
  constexpr int V = 16 / sizeof(Math);
  const std::int64_t n = parameters.numel();
  if (n == 0) return;
  bool aligned = is_aligned(parameters, sizeof(T) * V) && is_aligned(gradients, sizeof(T) * V);
  for (const Tensor& state : {first_state, second_state})
    aligned &= !state.defined() || is_aligned(state, sizeof(Math) * V);
  const auto run = [&](std::int64_t threads, auto kernel) {
    const double bytes =
        static_cast<double>(n) * (3 * sizeof(T) + 2 * Rule::kStates * sizeof(Math));
    launch_on(parameters.device(), thread_per_element(name, threads, bytes), where, kernel, rule, n,
              parameters.device_data<T>(), gradients.device_data<T>(),
              first_state.defined() ? first_state.device_data<Math>() : nullptr,
              second_state.defined() ? second_state.device_data<Math>() : nullptr);
  };
  if (aligned)
    run((n + V - 1) / V, step_thread_per_pack<V, Rule, T, Math>);
  else
    run(n, step_thread_per_pack<1, Rule, T, Math>);
}

template <template <class> class Rule, class Step>
void run_step(const char* name, const Tensor& parameters, const Tensor& gradients,
              const Tensor& first_state, const Tensor& second_state,
              const std::function<Step()>& step, Where where) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Made = Rule<MathType<T>>;
    const std::function<Made()> rule = [step] { return Made(step()); };
    launch_step<T>(name, replayed(rule), parameters, gradients, first_state, second_state, where);
  });
}

}  // namespace ringrad::kernels::cuda
