// Optimizer steps of one parameter, in double: no scale factor, no fused constants.

#pragma once

#include <cmath>

namespace ringrad::reference {

struct Sgd {
  double learning_rate = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  double buffer = 0;
  int steps = 0;

  /// The parameter after one more step.
  double step(double parameter, double gradient) {
    gradient += weight_decay * parameter;
    if (momentum == 0) return parameter - learning_rate * gradient;
    buffer = steps++ == 0 ? gradient : momentum * buffer + (1 - dampening) * gradient;
    return parameter - learning_rate * (nesterov ? gradient + momentum * buffer : buffer);
  }
};

struct Adam {
  double learning_rate = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false;
  double m = 0, v = 0;
  int steps = 0;

  double step(double parameter, double gradient) {
    ++steps;
    if (decoupled)
      parameter -= learning_rate * weight_decay * parameter;
    else
      gradient += weight_decay * parameter;
    m = beta1 * m + (1 - beta1) * gradient;
    v = beta2 * v + (1 - beta2) * gradient * gradient;
    const double unbiased_m = m / (1 - std::pow(beta1, steps));
    const double unbiased_v = v / (1 - std::pow(beta2, steps));
    return parameter - learning_rate * unbiased_m / (std::sqrt(unbiased_v) + eps);
  }
};

}  // namespace ringrad::reference
