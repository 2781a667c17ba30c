// Losses of one element x with target t, and their derivatives with respect to x, in double.

#pragma once

#include <cmath>

namespace ringrad::reference {

inline double squared_error(double x, double t) { return (x - t) * (x - t); }
inline double squared_error_derivative(double x, double t) { return 2 * (x - t); }

inline double absolute_error(double x, double t) { return std::fabs(x - t); }
inline double absolute_error_derivative(double x, double t) { return x > t ? 1 : x < t ? -1 : 0; }

/// -(w t log p + (1 - t) log(1 - p)),  p = 1 / (1 + exp(-x))
inline double binary_cross_entropy(double x, double t, double w) {
  const double p = 1 / (1 + std::exp(-x));
  return -(w * t * std::log(p) + (1 - t) * std::log(1 - p));
}
inline double binary_cross_entropy_derivative(double x, double t, double w) {
  const double p = 1 / (1 + std::exp(-x));
  return -(w * t * (1 - p) - (1 - t) * p);
}

}  // namespace ringrad::reference
