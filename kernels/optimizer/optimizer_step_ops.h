// The formulas of optimizer_step.h for one element, for the CPU and for GPU kernels. Private to
// kernels/. A step's constants are computed in double and rounded once, to the type of the
// arithmetic.

#pragma once

#include <cmath>

#include "ringrad/kernels/optimizer/optimizer_step.h"

namespace ringrad::kernels {

template <class Math>
struct SgdFactors {
  explicit SgdFactors(const SgdStep& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        weight_decay(static_cast<Math>(step.weight_decay)),
        momentum(static_cast<Math>(step.momentum)),
        undamped(static_cast<Math>(1 - step.dampening)),
        learning_rate(static_cast<Math>(step.learning_rate)) {}

  Math grad_scale, weight_decay, momentum, undamped, learning_rate;

  /// The parameter after a step without momentum.
  constexpr Math plain(Math parameter, Math gradient) const {
    return parameter - learning_rate * total(parameter, gradient);
  }

  /// The parameter after a step with momentum. In the first step the buffer is not read, since it
  /// may hold anything.
  constexpr Math with_momentum(Math parameter, Math gradient, Math& buffer, bool first,
                               bool nesterov) const {
    const Math g = total(parameter, gradient);
    buffer = first ? g : momentum * buffer + undamped * g;
    return parameter - learning_rate * (nesterov ? g + momentum * buffer : buffer);
  }

 private:
  constexpr Math total(Math parameter, Math gradient) const {
    return grad_scale * gradient + weight_decay * parameter;
  }
};

/// Adam's update with the bias corrections moved out of the loop:
///
///     lr / c1 * m / (sqrt(v / c2) + eps),   c = 1 - beta^step
template <class Math>
struct AdamFactors {
  explicit AdamFactors(const AdamStep& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        grad_decay(static_cast<Math>(step.decoupled ? 0 : step.weight_decay)),
        keep(static_cast<Math>(step.decoupled ? 1 - step.learning_rate * step.weight_decay : 1)),
        beta1(static_cast<Math>(step.beta1)),
        rest1(static_cast<Math>(1 - step.beta1)),
        beta2(static_cast<Math>(step.beta2)),
        rest2(static_cast<Math>(1 - step.beta2)),
        eps(static_cast<Math>(step.eps)) {
    const auto n = static_cast<double>(step.step);
    rate = static_cast<Math>(step.learning_rate / (1 - std::pow(step.beta1, n)));
    root_scale = static_cast<Math>(1 / std::sqrt(1 - std::pow(step.beta2, n)));
  }

  Math grad_scale, grad_decay, keep, beta1, rest1, beta2, rest2, eps, rate, root_scale;

  /// The parameter after a step. Also updates the moments.
  constexpr Math step(Math parameter, Math gradient, Math& first_moment,
                      Math& second_moment) const {
    const Math g = grad_scale * gradient + grad_decay * parameter;
    first_moment = beta1 * first_moment + rest1 * g;
    second_moment = beta2 * second_moment + rest2 * g * g;
    return keep * parameter - rate * first_moment / (std::sqrt(second_moment) * root_scale + eps);
  }
};

}  // namespace ringrad::kernels
