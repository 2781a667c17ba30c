// The formulas of adaptive_step.h for one element, as rules for the CPU's loop and the GPU's kernel
// (step_cuda.cuh). Private to kernels/.

#pragma once

#include <cmath>

#include "ringrad/kernels/optimizer/adaptive_step.h"

namespace ringrad::kernels {

/// RMSprop without momentum.
template <class Math>
struct RmspropRule {
  static constexpr int kStates = 1;
  static constexpr bool fresh = false;

  explicit RmspropRule(const RmspropStep& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        weight_decay(static_cast<Math>(step.weight_decay)),
        alpha(static_cast<Math>(step.alpha)),
        rest(static_cast<Math>(1 - step.alpha)),
        eps(static_cast<Math>(step.eps)),
        learning_rate(static_cast<Math>(step.learning_rate)) {}

  Math grad_scale, weight_decay, alpha, rest, eps, learning_rate;

  /// The scaled gradient; updates the average.
  constexpr Math scaled(Math parameter, Math gradient, Math& square_average) const {
    const Math g = grad_scale * gradient + weight_decay * parameter;
    square_average = alpha * square_average + rest * g * g;
    return g / (std::sqrt(square_average) + eps);
  }

  constexpr Math operator()(Math parameter, Math gradient, Math& square_average, Math&) const {
    return parameter - learning_rate * scaled(parameter, gradient, square_average);
  }
};

template <class Math>
struct MomentumRmspropRule : RmspropRule<Math> {
  static constexpr int kStates = 2;

  explicit MomentumRmspropRule(const RmspropStep& step)
      : RmspropRule<Math>(step), momentum(static_cast<Math>(step.momentum)) {}

  Math momentum;

  constexpr Math operator()(Math parameter, Math gradient, Math& square_average,
                            Math& buffer) const {
    buffer = momentum * buffer + this->scaled(parameter, gradient, square_average);
    return parameter - this->learning_rate * buffer;
  }
};

template <class Math>
struct AdagradRule {
  static constexpr int kStates = 1;
  static constexpr bool fresh = false;

  explicit AdagradRule(const AdagradStep& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        weight_decay(static_cast<Math>(step.weight_decay)),
        eps(static_cast<Math>(step.eps)),
        learning_rate(static_cast<Math>(step.learning_rate)) {}

  Math grad_scale, weight_decay, eps, learning_rate;

  constexpr Math operator()(Math parameter, Math gradient, Math& square_sum, Math&) const {
    const Math g = grad_scale * gradient + weight_decay * parameter;
    square_sum += g * g;
    return parameter - learning_rate * (g / (std::sqrt(square_sum) + eps));
  }
};

template <class Math>
struct LionRule {
  static constexpr int kStates = 1;
  static constexpr bool fresh = false;

  explicit LionRule(const LionStep& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        keep(static_cast<Math>(1 - step.learning_rate * step.weight_decay)),
        beta1(static_cast<Math>(step.beta1)),
        rest1(static_cast<Math>(1 - step.beta1)),
        beta2(static_cast<Math>(step.beta2)),
        rest2(static_cast<Math>(1 - step.beta2)),
        learning_rate(static_cast<Math>(step.learning_rate)) {}

  Math grad_scale, keep, beta1, rest1, beta2, rest2, learning_rate;

  constexpr Math operator()(Math parameter, Math gradient, Math& momentum, Math&) const {
    const Math g = grad_scale * gradient;
    const Math mixed = beta1 * momentum + rest1 * g;
    momentum = beta2 * momentum + rest2 * g;
    const Math sign = static_cast<Math>(mixed > 0) - static_cast<Math>(mixed < 0);
    const Math direction = mixed == mixed ? sign : mixed;
    return keep * parameter - learning_rate * direction;
  }
};

}  // namespace ringrad::kernels
