// The loop of all optimizer steps on a CPU. Private to kernels/.
//
// Rules are those of step_cuda.cuh; they choose for themselves what `fresh` means.

#pragma once

#include "ringrad/core/simd.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {

inline constexpr std::int64_t kStepGrain = 1 << 15;

// Arrays of state that the rule does not have are null.
template <class Rule, class T, class Math>
RINGRAD_CLONES void step_range(T* parameter, const T* gradient, Math* first_state,
                               Math* second_state, std::int64_t begin, std::int64_t end,
                               Rule rule) {
  for (std::int64_t i = begin; i < end; ++i) {
    Math unused{};
    Math& first = Rule::kStates > 0 ? first_state[i] : unused;
    Math& second = Rule::kStates > 1 ? second_state[i] : unused;
    parameter[i] = static_cast<T>(
        rule(static_cast<Math>(parameter[i]), static_cast<Math>(gradient[i]), first, second));
  }
}

template <template <class> class Rule, class Step>
void run_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_state,
              const Tensor& second_state, const Step& step) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const Rule<Math> rule(step);
    Math* first = first_state.defined() ? first_state.data<Math>() : nullptr;
    Math* second = second_state.defined() ? second_state.data<Math>() : nullptr;
    parallel_for(parameters.numel(), kStepGrain, [&](std::int64_t begin, std::int64_t end) {
      step_range(parameters.data<T>(), gradients.data<T>(), first, second, begin, end, rule);
    });
  });
}

}  // namespace ringrad::kernels::cpu
