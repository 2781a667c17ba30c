// Activations of neural networks, one row each; elementwise_ops.h explains what a row is. relu,
// sigmoid and gelu are in elementwise_unary_ops.h: a source instantiates only as many rows as
// compile in seconds.

#pragma once

#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::ops {

/// x / (1 + e^-x)
struct Silu : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "silu";
  static constexpr auto forward(auto x) { return x / (1 + exp(-x)); }
  static constexpr auto backward(const auto& grad, const auto& x) {
    const auto sigmoid = 1 / (1 + exp(-x));
    return grad * (sigmoid * (1 + x * (1 - sigmoid)));
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
