#include "ringrad/kernels/optimizer/adaptive_step_cuda.h"
#include "ringrad/kernels/optimizer/adaptive_step_ops.h"
#include "ringrad/kernels/optimizer/step_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <template <class> class Rule, class Step>
void run(const char* name, const Tensor& parameters, const Tensor& gradients,
         const Tensor& first_state, const Tensor& second_state, const std::function<Step()>& step,
         Where where) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Made = Rule<MathType<T>>;
    const std::function<Made()> rule = [step] { return Made(step()); };
    launch_step<T>(name, replayed(rule), parameters, gradients, first_state, second_state, where);
  });
}

}  // namespace

void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const std::function<RmspropStep()>& step, Where where) {
  if (step().momentum == 0)
    run<RmspropRule>("rmsprop_step", parameters, gradients, square_average, {}, step, where);
  else
    run<MomentumRmspropRule>("rmsprop_step", parameters, gradients, square_average, buffer, step,
                             where);
}

void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const std::function<AdagradStep()>& step, Where where) {
  run<AdagradRule>("adagrad_step", parameters, gradients, square_sum, {}, step, where);
}

void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const std::function<LionStep()>& step, Where where) {
  run<LionRule>("lion_step", parameters, gradients, momentum, {}, step, where);
}

}  // namespace ringrad::kernels::cuda
