#include "ringrad/autograd/loss/pointwise_loss.h"

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/constant.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/loss/pointwise_loss.h"

namespace ringrad {
namespace {

using kernels::PointwiseLoss;

// Derivatives of one element's loss, composed of recorded operators.

Tensor derivative_x(PointwiseLoss loss, const Tensor& x, const Tensor& t, const Tensor& w) {
  if (loss == PointwiseLoss::mse) return 2 * (x - t);
  if (loss == PointwiseLoss::l1) return sign(x - t);
  if (loss == PointwiseLoss::kl_div) return -t;
  if (loss == PointwiseLoss::kl_div_log) return -exp(t);
  if (loss == PointwiseLoss::huber) {
    const Tensor error = x - t;
    const Tensor delta = w.defined() ? w : ones({}, {.dtype = x.dtype(), .device = x.device()});
    return where(error > delta, delta, where(error < -delta, -delta, error));
  }
  if (loss == PointwiseLoss::smooth_l1) {
    const Tensor error = x - t;
    const Tensor beta = w.defined() ? w : ones({}, {.dtype = x.dtype(), .device = x.device()});
    return where(error > beta, 1, where(error < -beta, -1, error / beta));
  }
  const Tensor p = sigmoid(x);
  return w.defined() ? (p - t) + (w - 1) * t * (p - 1) : p - t;
}

// log(1 + exp(-x)), as one operation: composed of abs and relu, it would have no slope at 0, where
// the function has one.
Tensor softplus_of_negative(const Tensor& x) {
  const Where where = Where::current();
  Tensor y;
  {
    const NoGradGuard guard;
    y = log1p(exp(-abs(x))) + relu(-x);
  }
  if (needs_grad(x))
    record("softplus", where, y, {&x}, [x = save(x)](BackwardContext& context) {
      context.set(0, context.grad_output() * (sigmoid(x.get()) - 1));
    });
  return y;
}

Tensor derivative_targets(PointwiseLoss loss, const Tensor& x, const Tensor& t, const Tensor& w) {
  if (loss == PointwiseLoss::kl_div) return log(t) + 1 - x;
  if (loss == PointwiseLoss::kl_div_log) return exp(t) * (t - x + 1);
  if (loss != PointwiseLoss::bce_with_logits) return -derivative_x(loss, x, t, w);
  return w.defined() ? (w - 1) * softplus_of_negative(x) - x : -x;
}

// One node for all losses: the common case, the gradient of x alone, is one fused pass.
Tensor pointwise_loss(const char* name, PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                      const Tensor& parameter, Reduction reduction, Where where) {
  if (autocasting())
    return with_widened(
        where, [&](auto&... wide) { return pointwise_loss(name, loss, wide..., reduction, where); },
        x, targets, parameter);
  Tensor y = kernels::pointwise_loss(loss, x, targets, parameter, reduction, where);
  if (needs_grad(x, targets))
    record(name, where, y, {&x, &targets},
           [loss, reduction, x = save(x), targets = save(targets),
            weight = save(parameter)](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             const Tensor weight_value =
                 weight.defined() ? weight.get().detach() : Tensor();  // a constant
             const bool fused = !grad_enabled();
             if (fused && context.needs(0))
               context.set(0, kernels::pointwise_loss_backward(loss, grad, x.get(), targets.get(),
                                                               weight_value, reduction));
             if (fused && !context.needs(1)) return;
             // As the kernels: an exponential of a float16 number easily overflows.
             const DType dtype = grad.dtype(), wide = math_dtype(dtype);
             const Tensor a = to(x.get(), wide), t = to(targets.get(), wide);
             const Tensor w = weight.defined() ? to(weight_value, wide) : Tensor();
             const Tensor each = to(grad, wide);
             const Tensor g = reduction == Reduction::mean ? each / a.numel() : each;
             if (!fused && context.needs(0))
               context.set(0, to(derivative_x(loss, a, t, w) * g, dtype));
             if (context.needs(1)) context.set(1, to(derivative_targets(loss, a, t, w) * g, dtype));
           });
  return y;
}

// The parameter w of huber and smooth_l1, which 16 bits would round or lose.
Tensor distance(double w, const Tensor& x, Where where) {
  if (w == 1) return {};
  return scalar_tensor(w, {.dtype = math_dtype(x.dtype(where)), .device = x.device()}, where);
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& targets, Reduction reduction, Where where) {
  return pointwise_loss("mse_loss", PointwiseLoss::mse, x, targets, {}, reduction, where);
}

Tensor l1_loss(const Tensor& x, const Tensor& targets, Reduction reduction, Where where) {
  return pointwise_loss("l1_loss", PointwiseLoss::l1, x, targets, {}, reduction, where);
}

Tensor bce_with_logits(const Tensor& x, const Tensor& targets, const Tensor& positive_weight,
                       Reduction reduction, Where where) {
  check_constant("bce_with_logits", "positive_weight", positive_weight, where);
  return pointwise_loss("bce_with_logits", PointwiseLoss::bce_with_logits, x, targets,
                        positive_weight, reduction, where);
}

Tensor huber_loss(const Tensor& x, const Tensor& targets, Reduction reduction, double delta,
                  Where where) {
  RINGRAD_CHECK(delta > 0, ValueError, where, "huber_loss: delta must be positive; got ", delta);
  return pointwise_loss("huber_loss", PointwiseLoss::huber, x, targets, distance(delta, x, where),
                        reduction, where);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& targets, Reduction reduction, double beta,
                      Where where) {
  RINGRAD_CHECK(beta >= 0, ValueError, where, "smooth_l1_loss: beta must not be negative; got ",
                beta);
  const bool is_zero = x.dtype(where) == DType::float64 ? beta == 0 : static_cast<float>(beta) == 0;
  if (is_zero) return l1_loss(x, targets, reduction, where);
  return pointwise_loss("smooth_l1_loss", PointwiseLoss::smooth_l1, x, targets,
                        distance(beta, x, where), reduction, where);
}

Tensor kl_div(const Tensor& x, const Tensor& targets, Reduction reduction, bool log_target,
              Where where) {
  const PointwiseLoss loss = log_target ? PointwiseLoss::kl_div_log : PointwiseLoss::kl_div;
  return pointwise_loss("kl_div", loss, x, targets, {}, reduction, where);
}

}  // namespace ringrad
