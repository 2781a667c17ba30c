#include "ringrad/kernels/optimizer/optimizer_step.h"

#include <cmath>

#include "ringrad/kernels/copy/dense.h"
#include "ringrad/kernels/optimizer/optimizer_step_cuda.h"

namespace ringrad::kernels {
void replayable_sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
                         const std::function<SgdStep()>& settings, Where where) {
  check_step_arrays("sgd_step", parameters, gradients, where);
  const SgdStep step = settings();
  if (step.momentum != 0) {
    RINGRAD_CHECK(buffer.defined(), ValueError, where,
                  "sgd_step: momentum needs a buffer; got none with momentum ", step.momentum);
    check_step_state("sgd_step", "buffer", buffer, parameters, where);
  }
  if (parameters.device().is_cuda())
    cuda::sgd_step(parameters, gradients, buffer, settings, where);
  else
    cpu::sgd_step(parameters, gradients, buffer, step);
  parameters.mark_changed(where);
  if (step.momentum != 0) buffer.mark_changed(where);
}

void replayable_adam_step(const Tensor& parameters, const Tensor& gradients,
                          const Tensor& first_moment, const Tensor& second_moment,
                          const std::function<AdamStep()>& settings, Where where) {
  check_step_arrays("adam_step", parameters, gradients, where);
  const AdamStep step = settings();
  check_step_state("adam_step", "first_moment", first_moment, parameters, where);
  check_step_state("adam_step", "second_moment", second_moment, parameters, where);
  RINGRAD_CHECK(step.step >= 1, ValueError, where, "adam_step: step counts from 1; got ",
                step.step);
  if (parameters.device().is_cuda())
    cuda::adam_step(parameters, gradients, first_moment, second_moment, settings, where);
  else
    cpu::adam_step(parameters, gradients, first_moment, second_moment, step);
  parameters.mark_changed(where);
  first_moment.mark_changed(where);
  second_moment.mark_changed(where);
}

void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const SgdStep& step, Where where) {
  replayable_sgd_step(
      parameters, gradients, buffer, [step] { return step; }, where);
}

void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const AdamStep& step, Where where) {
  replayable_adam_step(
      parameters, gradients, first_moment, second_moment, [step] { return step; }, where);
}

double sum_of_squares(const Tensor& x, Where where) {
  check_floating("sum_of_squares", x, where);
  const Tensor values = dense(x, where);
  if (x.device().is_cpu()) return cpu::sum_of_squares(values);
  const Tensor sum = empty({}, {.dtype = DType::float64, .device = x.device()}, where);
  cuda::sum_of_squares(values, sum, where);
  return sum.item<double>(where);
}

double l2_norm(const Tensor& x, Where where) { return std::sqrt(sum_of_squares(x, where)); }

}  // namespace ringrad::kernels
