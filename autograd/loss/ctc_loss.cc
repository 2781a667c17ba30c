#include "ringrad/autograd/loss/ctc_loss.h"

#include <limits>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/loss/ctc_loss.h"

namespace ringrad {
namespace {

/// The occupancies as a function of x. A backward pass through them throws.
Tensor occupancies_in(const Tensor& x, const Tensor& occupancies, Where where) {
  Tensor y = view::alias(occupancies, where);
  if (needs_grad(x))
    record("ctc_loss_gradient", where, y, {&x}, [where](BackwardContext&) {
      throw AutogradError("ctc_loss: its gradient has no derivative here", where);
    });
  return y;
}

/// The losses of the examples; those of `excused` examples are 0.
Tensor losses_of(const Tensor& x, const kernels::CTCResult& result, const Tensor& excused,
                 Where where) {
  Tensor losses = view::alias(result.losses, where);
  if (needs_grad(x))
    record("ctc_loss", where, losses, {&x},
           [x = save(x), occupancies = result.occupancies, where](BackwardContext& context) {
             const Tensor factors =
                 grad_enabled() ? occupancies_in(x.get(), occupancies, where) : occupancies;
             context.set(0, -unsqueeze(context.grad_output(), -1) * factors);
           });
  return excused.defined() ? ringrad::where(excused, 0, losses) : losses;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossOptions& options, Where where) {
  const auto of_wide = [&](const Tensor& wide) {
    return ctc_loss(wide, targets, input_lengths, target_lengths, options, where);
  };
  if (autocasting()) return with_widened(where, of_wide, log_probabilities);
  if (const DType dtype = log_probabilities.dtype(where); math_dtype(dtype) != dtype)
    return to(of_wide(to(log_probabilities, math_dtype(dtype), where)), dtype,
              where);  // a loss may leave the range of 16 bits before the mean
  const Device device = log_probabilities.device(where);
  if (device.is_cuda()) {
    const Device cpu(DeviceType::cpu, 0);
    for (const Tensor* integers : {&targets, &input_lengths, &target_lengths})
      check_same_device("ctc_loss", log_probabilities, *integers, where);
    const Tensor loss =
        ctc_loss(to(log_probabilities, cpu, where), to(targets, cpu, where),
                 to(input_lengths, cpu, where), to(target_lengths, cpu, where), options, where);
    return to(loss, device, where);
  }
  kernels::CTCResult result = kernels::ctc_loss(log_probabilities, targets, input_lengths,
                                                target_lengths, options.blank, where);
  Tensor excused;
  if (options.zero_infinity) {
    excused = result.losses == std::numeric_limits<double>::infinity();
    result.occupancies = ringrad::where(unsqueeze(excused, -1), 0, result.occupancies);
  }
  const Tensor losses = losses_of(log_probabilities, result, excused, where);
  if (options.reduction == Reduction::none) return losses;
  if (options.reduction == Reduction::sum) return sum(losses);
  return mean(losses / to(maximum(target_lengths, 1), losses.dtype()));
}

}  // namespace ringrad
