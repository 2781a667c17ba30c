#include "ringrad/kernels/optimizer/adaptive_step.h"

#include "ringrad/kernels/optimizer/adaptive_step_cuda.h"
#include "ringrad/kernels/optimizer/step_arrays.h"

namespace ringrad::kernels {

void replayable_rmsprop_step(const Tensor& parameters, const Tensor& gradients,
                             const Tensor& square_average, const Tensor& buffer,
                             const std::function<RmspropStep()>& step, Where where) {
  check_step_arrays("rmsprop_step", parameters, gradients, where);
  check_step_state("rmsprop_step", "square_average", square_average, parameters, where);
  const RmspropStep now = step();
  if (now.momentum != 0) {
    RINGRAD_CHECK(buffer.defined(), ValueError, where,
                  "rmsprop_step: momentum needs a buffer; got none with momentum ", now.momentum);
    check_step_state("rmsprop_step", "buffer", buffer, parameters, where);
  }
  if (parameters.device().is_cuda())
    cuda::rmsprop_step(parameters, gradients, square_average, buffer, step, where);
  else
    cpu::rmsprop_step(parameters, gradients, square_average, buffer, now);
  parameters.mark_changed(where);
  square_average.mark_changed(where);
  if (now.momentum != 0) buffer.mark_changed(where);
}

void replayable_adagrad_step(const Tensor& parameters, const Tensor& gradients,
                             const Tensor& square_sum, const std::function<AdagradStep()>& step,
                             Where where) {
  check_step_arrays("adagrad_step", parameters, gradients, where);
  check_step_state("adagrad_step", "square_sum", square_sum, parameters, where);
  if (parameters.device().is_cuda())
    cuda::adagrad_step(parameters, gradients, square_sum, step, where);
  else
    cpu::adagrad_step(parameters, gradients, square_sum, step());
  parameters.mark_changed(where);
  square_sum.mark_changed(where);
}

void replayable_lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
                          const std::function<LionStep()>& step, Where where) {
  check_step_arrays("lion_step", parameters, gradients, where);
  check_step_state("lion_step", "momentum", momentum, parameters, where);
  if (parameters.device().is_cuda())
    cuda::lion_step(parameters, gradients, momentum, step, where);
  else
    cpu::lion_step(parameters, gradients, momentum, step());
  parameters.mark_changed(where);
  momentum.mark_changed(where);
}

}  // namespace ringrad::kernels
