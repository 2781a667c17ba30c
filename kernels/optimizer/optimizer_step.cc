#include "ringrad/kernels/optimizer/optimizer_step.h"

#include <algorithm>
#include <cmath>

#include "ringrad/kernels/copy/dense.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad::kernels {
namespace {

void check_buffer(const char* operation, double momentum, const Tensor& buffer,
                  const Tensor& parameters, Where where) {
  RINGRAD_CHECK(buffer.defined(), ValueError, where, operation,
                ": momentum needs a buffer; got none with momentum ", momentum);
  check_step_state(operation, "buffer", buffer, parameters, where);
}

}  // namespace

void replayable_sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
                         const std::function<SgdStep()>& settings, Where where) {
  check_step_arrays("sgd_step", parameters, gradients, where);
  const SgdStep step = settings();
  if (step.momentum != 0) check_buffer("sgd_step", step.momentum, buffer, parameters, where);
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

void replayable_rmsprop_step(const Tensor& parameters, const Tensor& gradients,
                             const Tensor& square_average, const Tensor& buffer,
                             const std::function<RmspropStep()>& step, Where where) {
  check_step_arrays("rmsprop_step", parameters, gradients, where);
  check_step_state("rmsprop_step", "square_average", square_average, parameters, where);
  const RmspropStep now = step();
  if (now.momentum != 0) check_buffer("rmsprop_step", now.momentum, buffer, parameters, where);
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

bool Norm::is_finite() const { return std::isfinite(squares); }

double Norm::value() const { return scale * std::sqrt(squares); }

// Scales are powers of 2, so only a part that is negligible is rounded.
void Norm::add(const Norm& other) {
  if (other.squares == 0) return;
  if (squares == 0) {
    *this = other;
    return;
  }
  const double larger = std::max(scale, other.scale);
  const auto at_larger = [larger](const Norm& norm) {
    const double ratio = norm.scale / larger;
    return norm.squares * ratio * ratio;
  };
  squares = at_larger(*this) + at_larger(other);
  scale = larger;
}

// Blue 1978, "A portable Fortran program to find the Euclidean norm of a vector": three ranges of
// numbers, each with a scale at which no square overflows or vanishes. Here the range is that of
// the sum, which only float64 can leave.
Norm norm_of(const Tensor& x, Where where) {
  constexpr double kLarge = 0x1p600, kSmall = 0x1p-600;
  const double squares = sum_of_squares(x, where);
  if (x.dtype() != DType::float64) return {1, squares};
  const auto scaled = [&](double scale) {
    return Norm{scale,
                sum_of_squares(unary(ops::RightScalar<ops::Mul>(1 / scale), x, where), where)};
  };
  if (squares > 0x1p900) return scaled(kLarge);
  if (squares < 0x1p-900) return scaled(kSmall);
  return {1, squares};
}

double l2_norm(const Tensor& x, Where where) { return norm_of(x, where).value(); }

}  // namespace ringrad::kernels
