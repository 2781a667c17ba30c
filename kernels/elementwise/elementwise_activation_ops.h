// Activations of neural networks, one row each; elementwise_ops.h explains what a row is.

#pragma once

#include <numbers>

#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::ops {

/// NaN stays NaN and passes its gradient on. The output is enough for the derivative, and the next
/// layer usually saves it anyway.
struct Relu : UnaryRow<Domain::number, Saves::output> {
  static constexpr const char* kName = "relu";
  static constexpr auto forward(auto x) { return where(x < 0, 0, x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return where(y <= 0, 0, grad); }
};

struct Sigmoid : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "sigmoid";
  static constexpr auto forward(auto x) { return 1 / (1 + exp(-x)); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * (y * (1 - y)); }
};

/// The sigmoids of x and of -x, which add up to 1. Each has all its digits however small it is, and
/// no exponential overflows. |x| is written so that it has a slope at 0, which second derivatives
/// need.
template <class V>
struct Sigmoids {
  V of_x, of_minus_x;
};

template <class V>
constexpr Sigmoids<V> sigmoids(const V& x) {
  const auto power = exp(where(x < 0, x, -x));
  const auto larger = 1 / (1 + power), smaller = power * larger;
  return {where(x < 0, smaller, larger), where(x < 0, larger, smaller)};
}

/// Limits x to [-30, 30]. Outside, gelu's slope is 0 or 1 to all digits, but its formulas give
/// inf * 0.
constexpr auto within_bend(auto x) {
  return where(x > 30, like(x, 30), where(x < -30, like(x, -30), x));
}

/// x Phi(x), where Phi is the distribution function of the standard normal distribution.
struct Gelu : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "gelu";
  static constexpr auto distribution(auto x) {
    return like(x, 0.5) * (1 + erf(x * like(x, std::numbers::sqrt2 / 2)));
  }
  static constexpr auto density(auto x) {
    return like(x, std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(x * x / -2);
  }
  static constexpr auto forward(auto x) { return x * distribution(x); }
  static constexpr auto backward(const auto& grad, const auto& any_x) {
    const auto x = within_bend(any_x);
    return grad * (distribution(x) + x * density(x));
  }
};

/// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3). Its derivative is written with
/// sigmoid(2 u) = (1 + tanh u) / 2, because tanh u would cancel against 1.
/// Paper: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2
struct GeluTanh : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "gelu_tanh";
  static constexpr double kSlope = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double kCubic = 0.044715;
  static constexpr auto u(auto x) { return like(x, kSlope) * x * (1 + like(x, kCubic) * x * x); }
  static constexpr auto du_dx(auto x) {
    return like(x, kSlope) * (1 + like(x, 3 * kCubic) * x * x);
  }
  static constexpr auto forward(auto x) { return like(x, 0.5) * x * (1 + tanh(u(x))); }
  static constexpr auto backward(const auto& grad, const auto& any_x) {
    const auto x = within_bend(any_x);
    const auto s = sigmoids(2 * u(x));
    return grad * (s.of_x + x * s.of_x * s.of_minus_x * (2 * du_dx(x)));
  }
};

/// x / (1 + e^-x)
struct Silu : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "silu";
  static constexpr auto forward(auto x) { return x / (1 + exp(-x)); }
  static constexpr auto backward(const auto& grad, const auto& x) {
    const auto s = sigmoids(x);
    return grad * (s.of_x * (1 + x * s.of_minus_x));
  }
};

/// log(1 + e^(beta x)) / beta, or x itself where beta x > threshold. The exponential is taken of a
/// number below the threshold only: otherwise a second derivative would multiply inf by 0.
struct Softplus : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "softplus";
  Scalar beta, threshold;

  Softplus(Scalar beta, Scalar threshold) : beta(beta), threshold(threshold) {}
  constexpr auto forward(auto x) const {
    const auto scaled = x * like(x, beta);
    return where(scaled > like(x, threshold), x, log1p(exp(scaled)) / like(x, beta));
  }
  constexpr auto backward(const auto& grad, const auto& x) const {
    const auto scaled = x * like(x, beta);
    const auto power = exp(where(scaled > like(x, threshold), 0, scaled));
    return where(scaled > like(x, threshold), grad, grad * (power / (power + 1)));
  }
};

/// x, or slope * x unless x > 0
struct LeakyRelu : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "leaky_relu";
  Scalar slope;

  explicit LeakyRelu(Scalar slope) : slope(slope) {}
  constexpr auto forward(auto x) const { return where(x > 0, x, x * like(x, slope)); }
  constexpr auto backward(const auto& grad, const auto& x) const {
    return where(x > 0, grad, grad * like(x, slope));
  }
};

/// x, or alpha (e^x - 1) where x <= 0. The exponential is never taken of large numbers, as in
/// Softplus.
struct Elu : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "elu";
  Scalar alpha;

  explicit Elu(Scalar alpha) : alpha(alpha) {}
  constexpr auto forward(auto x) const { return where(x <= 0, expm1(x) * like(x, alpha), x); }
  constexpr auto backward(const auto& grad, const auto& x) const {
    return where(x <= 0, grad * (exp(where(x <= 0, x, 0)) * like(x, alpha)), grad);
  }
};

}  // namespace ringrad::ops
