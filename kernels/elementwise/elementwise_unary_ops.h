// Elementwise operators of one tensor: arithmetic, exponentials, roots, rounding, predicates.
// elementwise_ops.h explains what a row is; the other headers elementwise_*_ops.h hold more.

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

struct Erf : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "erf";
  static constexpr auto forward(auto x) { return erf(x); }
  static constexpr auto backward(const auto& grad, const auto& x) {
    return grad * (like(x, 2 * std::numbers::inv_sqrtpi) * exp(-(x * x)));
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

/// Rounds to the nearest integer, and halves to the even one.
struct Round : UnaryRow<Domain::number> {
  static constexpr const char* kName = "round";
  template <class T>
  static constexpr T forward(T x) {
    return std::is_integral_v<T> ? x : static_cast<T>(std::nearbyint(x));
  }
  static constexpr auto backward(const auto& grad, const auto&) { return zero_like(grad); }
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
