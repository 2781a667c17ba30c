// The formulas of optimizer_step.h for one element, as rules for the CPU's loop (step_cpu.h) and
// the GPU's kernel (step_cuda.cuh). Private to kernels/. A step's constants are computed in double
// and rounded once, to the type of the arithmetic.

#pragma once

#include <cmath>

#include "ringrad/kernels/optimizer/optimizer_step.h"

namespace ringrad::kernels {

/// The constants that most steps have, and the gradient that they use.
template <class Math>
struct DecayedRule {
  static constexpr bool fresh = false;

  template <class Step>
  explicit DecayedRule(const Step& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        weight_decay(static_cast<Math>(step.weight_decay)),
        learning_rate(static_cast<Math>(step.learning_rate)) {}

  Math grad_scale, weight_decay, learning_rate;

  constexpr Math total(Math parameter, Math gradient) const {
    return grad_scale * gradient + weight_decay * parameter;
  }
};

/// SGD without momentum.
template <class Math>
struct SgdRule : DecayedRule<Math> {
  static constexpr int kStates = 0;

  using DecayedRule<Math>::DecayedRule;

  constexpr Math operator()(Math parameter, Math gradient, Math&, Math&) const {
    return parameter - this->learning_rate * this->total(parameter, gradient);
  }
};

/// In the first step the buffer's values have no effect, since it may hold anything.
template <class Math>
struct MomentumSgdRule : SgdRule<Math> {
  static constexpr int kStates = 1;

  explicit MomentumSgdRule(const SgdStep& step)
      : SgdRule<Math>(step),
        momentum(static_cast<Math>(step.momentum)),
        undamped(static_cast<Math>(1 - step.dampening)),
        fresh(step.first),
        nesterov(step.nesterov) {}

  Math momentum, undamped;
  bool fresh, nesterov;

  constexpr Math operator()(Math parameter, Math gradient, Math& buffer, Math&) const {
    return step(parameter, gradient, buffer, fresh, nesterov);
  }

  constexpr Math step(Math parameter, Math gradient, Math& buffer, bool is_fresh,
                      bool is_nesterov) const {
    const Math g = this->total(parameter, gradient);
    buffer = is_fresh ? g : momentum * buffer + undamped * g;
    return parameter - this->learning_rate * (is_nesterov ? g + momentum * buffer : buffer);
  }
};

/// Adam's update with the bias corrections moved out of the loop:
///
///     lr / c1 * m / (sqrt(v / c2) + eps),   c = 1 - beta^step
template <class Math>
struct AdamRule {
  static constexpr int kStates = 2;
  static constexpr bool fresh = false;

  explicit AdamRule(const AdamStep& step)
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

  constexpr Math operator()(Math parameter, Math gradient, Math& first_moment,
                            Math& second_moment) const {
    const Math g = grad_scale * gradient + grad_decay * parameter;
    first_moment = beta1 * first_moment + rest1 * g;
    second_moment = beta2 * second_moment + rest2 * g * g;
    return keep * parameter - rate * first_moment / (std::sqrt(second_moment) * root_scale + eps);
  }
};

/// RMSprop without momentum.
template <class Math>
struct RmspropRule : DecayedRule<Math> {
  static constexpr int kStates = 1;

  explicit RmspropRule(const RmspropStep& step)
      : DecayedRule<Math>(step),
        alpha(static_cast<Math>(step.alpha)),
        rest(static_cast<Math>(1 - step.alpha)),
        eps(static_cast<Math>(step.eps)) {}

  Math alpha, rest, eps;

  /// The scaled gradient; updates the average.
  constexpr Math scaled(Math parameter, Math gradient, Math& square_average) const {
    const Math g = this->total(parameter, gradient);
    square_average = alpha * square_average + rest * g * g;
    return g / (std::sqrt(square_average) + eps);
  }

  constexpr Math operator()(Math parameter, Math gradient, Math& square_average, Math&) const {
    return parameter - this->learning_rate * scaled(parameter, gradient, square_average);
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
struct AdagradRule : DecayedRule<Math> {
  static constexpr int kStates = 1;

  explicit AdagradRule(const AdagradStep& step)
      : DecayedRule<Math>(step), eps(static_cast<Math>(step.eps)) {}

  Math eps;

  constexpr Math operator()(Math parameter, Math gradient, Math& square_sum, Math&) const {
    const Math g = this->total(parameter, gradient);
    square_sum += g * g;
    return parameter - this->learning_rate * (g / (std::sqrt(square_sum) + eps));
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
