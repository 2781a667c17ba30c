#include "ringrad/core/simd.h"
#include "ringrad/kernels/optimizer/adaptive_step_ops.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

// The second array of state is null for rules that have one.
template <class Rule, class T, class Math>
RINGRAD_CLONES void step_range(T* parameter, const T* gradient, Math* first_state,
                               Math* second_state, std::int64_t begin, std::int64_t end,
                               Rule rule) {
  for (std::int64_t i = begin; i < end; ++i) {
    Math unused{};
    Math& second = Rule::kStates > 1 ? second_state[i] : unused;
    parameter[i] = static_cast<T>(rule(static_cast<Math>(parameter[i]),
                                       static_cast<Math>(gradient[i]), first_state[i], second));
  }
}

template <template <class> class Rule, class Step>
void run(const Tensor& parameters, const Tensor& gradients, const Tensor& first_state,
         const Tensor& second_state, const Step& step) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const Rule<Math> rule(step);
    Math* second = second_state.defined() ? second_state.data<Math>() : nullptr;
    parallel_for(parameters.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      step_range(parameters.data<T>(), gradients.data<T>(), first_state.data<Math>(), second, begin,
                 end, rule);
    });
  });
}

}  // namespace

void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const RmspropStep& step) {
  if (step.momentum == 0)
    run<RmspropRule>(parameters, gradients, square_average, {}, step);
  else
    run<MomentumRmspropRule>(parameters, gradients, square_average, buffer, step);
}

void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const AdagradStep& step) {
  run<AdagradRule>(parameters, gradients, square_sum, {}, step);
}

void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const LionStep& step) {
  run<LionRule>(parameters, gradients, momentum, {}, step);
}

}  // namespace ringrad::kernels::cpu
