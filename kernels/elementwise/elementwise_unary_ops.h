// The unary elementwise operators, one row each; elementwise_ops.h explains what a row is.

#pragma once

#include <numbers>

#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::ops {

struct Neg : UnaryRow<Domain::number> {
  static constexpr const char* kName = "neg";
  static constexpr auto forward(auto x) { return -x; }
  static constexpr auto backward(const auto& grad, const auto&) { return -grad; }
};

struct Abs : UnaryRow<Domain::number, Saves::input> {
  static constexpr const char* kName = "abs";
  static constexpr auto forward(auto x) { return abs(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad * sign(x); }
};

struct Square : UnaryRow<Domain::number, Saves::input> {
  static constexpr const char* kName = "square";
  static constexpr auto forward(auto x) { return x * x; }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad * x * 2; }
};

struct Exp : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "exp";
  static constexpr auto forward(auto x) { return exp(x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * y; }
};

struct Expm1 : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "expm1";
  static constexpr auto forward(auto x) { return expm1(x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * (y + 1); }
};

struct Log : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "log";
  static constexpr auto forward(auto x) { return log(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad / x; }
};

struct Log1p : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "log1p";
  static constexpr auto forward(auto x) { return log1p(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad / (x + 1); }
};

struct Sqrt : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "sqrt";
  static constexpr auto forward(auto x) { return sqrt(x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad / (2 * y); }
};

struct Rsqrt : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "rsqrt";
  static constexpr auto forward(auto x) { return 1 / sqrt(x); }
  // Factor by factor: y^3 may overflow or underflow where the product does not.
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * y * y * y / -2; }
};

struct Reciprocal : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "reciprocal";
  static constexpr auto forward(auto x) { return 1 / x; }
  static constexpr auto backward(const auto& grad, const auto& y) { return -grad * y * y; }
};

struct Sin : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "sin";
  static constexpr auto forward(auto x) { return sin(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad * cos(x); }
};

struct Cos : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "cos";
  static constexpr auto forward(auto x) { return cos(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return -grad * sin(x); }
};

struct Tanh : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "tanh";
  static constexpr auto forward(auto x) { return tanh(x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * (1 - y * y); }
};

struct Sigmoid : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "sigmoid";
  static constexpr auto forward(auto x) { return 1 / (1 + exp(-x)); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * (y * (1 - y)); }
};

struct Erf : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "erf";
  static constexpr auto forward(auto x) { return erf(x); }
  static constexpr auto backward(const auto& grad, const auto& x) {
    return grad * (like(x, 2 * std::numbers::inv_sqrtpi) * exp(-(x * x)));
  }
};

/// NaN stays NaN and passes its gradient on. The output is enough for the derivative, and the next
/// layer usually saves it anyway.
struct Relu : UnaryRow<Domain::number, Saves::output> {
  static constexpr const char* kName = "relu";
  static constexpr auto forward(auto x) { return where(x < 0, 0, x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return where(y <= 0, 0, grad); }
};

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

/// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3).
/// Paper: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2
struct GeluTanh : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "gelu_tanh";
  static constexpr double kSlope = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double kCubic = 0.044715;
  static constexpr auto tanh_u(auto x) {
    return tanh(like(x, kSlope) * x * (1 + like(x, kCubic) * x * x));
  }
  static constexpr auto du_dx(auto x) {
    return like(x, kSlope) * (1 + like(x, 3 * kCubic) * x * x);
  }
  static constexpr auto forward(auto x) { return like(x, 0.5) * x * (1 + tanh_u(x)); }
  static constexpr auto backward(const auto& grad, const auto& any_x) {
    const auto x = within_bend(any_x);
    const auto t = tanh_u(x);
    return grad * like(x, 0.5) * (1 + t + x * (1 - t * t) * du_dx(x));
  }
};

struct Sign : UnaryRow<Domain::number> {
  static constexpr const char* kName = "sign";
  static constexpr auto forward(auto x) { return sign(x); }
  static constexpr auto backward(const auto& grad, const auto&) { return zero_like(grad); }
};

struct Floor : UnaryRow<Domain::number> {
  static constexpr const char* kName = "floor";
  template <class T>
  static constexpr T forward(T x) {
    return std::is_integral_v<T> ? x : static_cast<T>(floor(x));
  }
  static constexpr auto backward(const auto& grad, const auto&) { return zero_like(grad); }
};

struct Ceil : UnaryRow<Domain::number> {
  static constexpr const char* kName = "ceil";
  template <class T>
  static constexpr T forward(T x) {
    return std::is_integral_v<T> ? x : static_cast<T>(ceil(x));
  }
  static constexpr auto backward(const auto& grad, const auto&) { return zero_like(grad); }
};

/// To the nearest integer, halves to the even one.
struct Round : UnaryRow<Domain::number> {
  static constexpr const char* kName = "round";
  template <class T>
  static constexpr T forward(T x) {
    return std::is_integral_v<T> ? x : static_cast<T>(std::nearbyint(x));
  }
  static constexpr auto backward(const auto& grad, const auto&) { return zero_like(grad); }
};

/// x limited to [low, high]; NaN stays NaN. The gradient is 0 outside, at the bounds and for NaN.
struct Clamp : UnaryRow<Domain::number, Saves::input> {
  static constexpr const char* kName = "clamp";
  Scalar low, high;

  Clamp(Scalar low, Scalar high) : low(low), high(high) {}
  DType promoted(DType x, Where where) const {
    return promote_number(kName, promote_number(kName, x, low, where), high, where);
  }
  constexpr auto forward(auto x) const {
    return where(x < like(x, low), like(x, low), where(x > like(x, high), like(x, high), x));
  }
  constexpr auto backward(const auto& grad, const auto& x) const {
    return where(x > like(x, low), where(x < like(x, high), grad, 0), 0);
  }
};

/// x^exponent
struct PowScalar : UnaryRow<Domain::number, Saves::input> {
  static constexpr const char* kName = "pow";
  Scalar exponent;

  explicit PowScalar(Scalar exponent) : exponent(exponent) {}
  DType promoted(DType x, Where where) const { return promote_number(kName, x, exponent, where); }
  constexpr auto forward(auto x) const { return power(x, like(x, exponent)); }
  constexpr auto backward(const auto& grad, const auto& x) const {
    const auto n = exponent.to<double>();
    if (n == 0) return zero_like(grad);  // the formula would give 0 * inf at x = 0
    return grad * (like(x, n) * pow(x, like(x, n - 1)));
  }
};

/// base^x
struct ScalarPow : UnaryRow<Domain::number, Saves::output> {
  static constexpr const char* kName = "pow";
  Scalar base;

  explicit ScalarPow(Scalar base) : base(base) {}
  DType promoted(DType x, Where where) const { return promote_number(kName, x, base, where); }
  constexpr auto forward(auto x) const { return power(like(x, base), x); }
  constexpr auto backward(const auto& grad, const auto& y) const {
    const auto slope = y * like(y, std::log(base.to<double>()));
    // 0^x is 1, 0 or infinite. Where it is finite the formula would give 0 * -inf.
    return grad * (base.to<double>() == 0 ? where(y <= 1, 0, slope) : slope);
  }
};

struct LogicalNot : UnaryRow<Domain::logical> {
  static constexpr const char* kName = "logical_not";
  static constexpr bool forward(bool x) { return !x; }
};

struct IsNan : UnaryRow<Domain::real> {
  static constexpr const char* kName = "isnan";
  static constexpr bool forward(auto x) { return x != x; }
};

struct IsFinite : UnaryRow<Domain::real> {
  static constexpr const char* kName = "isfinite";
  static constexpr bool forward(auto x) {
    return abs(x) <= std::numeric_limits<decltype(x)>::max();
  }
};

}  // namespace ringrad::ops
