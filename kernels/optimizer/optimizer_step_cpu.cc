#include <algorithm>
#include <vector>

#include "ringrad/kernels/optimizer/optimizer_step_ops.h"
#include "ringrad/kernels/optimizer/step_cpu.h"

namespace ringrad::kernels::cpu {
namespace {

// The flags are constants here, since GCC does not take them out of the loop for float16.
template <bool kFresh, bool kNesterov>
struct Fixed {
  template <class Math>
  struct Rule : MomentumSgdRule<Math> {
    using MomentumSgdRule<Math>::MomentumSgdRule;
    constexpr Math operator()(Math parameter, Math gradient, Math& buffer, Math&) const {
      return this->step(parameter, gradient, buffer, kFresh, kNesterov);
    }
  };
};

template <class T>
RINGRAD_CLONES double square_block(const T* x, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) {
    const auto value = static_cast<double>(static_cast<MathType<T>>(x[i]));
    sum += value * value;
  }
  return sum;
}

}  // namespace

void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const SgdStep& step) {
  if (step.momentum == 0)
    run_step<SgdRule>(parameters, gradients, {}, {}, step);
  else if (step.first && step.nesterov)
    run_step<Fixed<true, true>::Rule>(parameters, gradients, buffer, {}, step);
  else if (step.first)
    run_step<Fixed<true, false>::Rule>(parameters, gradients, buffer, {}, step);
  else if (step.nesterov)
    run_step<Fixed<false, true>::Rule>(parameters, gradients, buffer, {}, step);
  else
    run_step<Fixed<false, false>::Rule>(parameters, gradients, buffer, {}, step);
}

void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const AdamStep& step) {
  run_step<AdamRule>(parameters, gradients, first_moment, second_moment, step);
}

void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const RmspropStep& step) {
  if (step.momentum == 0)
    run_step<RmspropRule>(parameters, gradients, square_average, {}, step);
  else
    run_step<MomentumRmspropRule>(parameters, gradients, square_average, buffer, step);
}

void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const AdagradStep& step) {
  run_step<AdagradRule>(parameters, gradients, square_sum, {}, step);
}

void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const LionStep& step) {
  run_step<LionRule>(parameters, gradients, momentum, {}, step);
}

double sum_of_squares(const Tensor& x) {
  constexpr std::int64_t kBlock = 1 << 13;
  const std::int64_t n = x.numel(), num_blocks = (n + kBlock - 1) / kBlock;
  return dispatch_floating(x.dtype(), [&]<class T>() {
    const T* values = x.data<T>();
    if (num_blocks <= 1) return square_block(values, 0, n);
    std::vector<double> partial(static_cast<std::size_t>(num_blocks));
    parallel_for(num_blocks, kStepGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k)
        partial[static_cast<std::size_t>(k)] =
            square_block(values, k * kBlock, std::min(n, (k + 1) * kBlock));
    });
    double sum = 0;
    for (double part : partial) sum += part;
    return sum;
  });
}

}  // namespace ringrad::kernels::cpu
