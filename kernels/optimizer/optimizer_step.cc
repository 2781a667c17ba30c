#include "ringrad/kernels/optimizer/optimizer_step.h"

#include <cmath>

#include "ringrad/kernels/copy/dense.h"
#include "ringrad/kernels/optimizer/optimizer_step_cuda.h"

namespace ringrad::kernels {
namespace {

// Checks an array that is processed element by element with the parameters.
void check_array(const char* operation, const char* what, const Tensor& array,
                 const Tensor& parameters, DType dtype, Where where) {
  RINGRAD_CHECK(array.dtype() == dtype, DTypeError, where, operation, ": ", what, " must be ",
                dtype, " for parameters of ", parameters.dtype(), "; got ", array.dtype());
  check_same_device(operation, parameters, array, where);
  RINGRAD_CHECK(array.numel() == parameters.numel() && array.is_contiguous(), ShapeError, where,
                operation, ": ", what,
                " must be contiguous and of as many elements as parameters; got ", array.shape(),
                " and ", parameters.shape());
}

void check_arrays(const char* operation, const Tensor& parameters, const Tensor& gradients,
                  Where where) {
  check_floating(operation, parameters, where);
  check_array(operation, "parameters", parameters, parameters, parameters.dtype(), where);
  check_array(operation, "gradients", gradients, parameters, parameters.dtype(), where);
}

}  // namespace

void replayable_sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
                         const std::function<SgdStep()>& settings, Where where) {
  check_arrays("sgd_step", parameters, gradients, where);
  const SgdStep step = settings();
  if (step.momentum != 0) {
    RINGRAD_CHECK(buffer.defined(), ValueError, where,
                  "sgd_step: momentum needs a buffer; got none with momentum ", step.momentum);
    check_array("sgd_step", "buffer", buffer, parameters, optimizer_state_dtype(parameters.dtype()),
                where);
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
  check_arrays("adam_step", parameters, gradients, where);
  const AdamStep step = settings();
  const DType state = optimizer_state_dtype(parameters.dtype());
  check_array("adam_step", "first_moment", first_moment, parameters, state, where);
  check_array("adam_step", "second_moment", second_moment, parameters, state, where);
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

DType optimizer_state_dtype(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
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
