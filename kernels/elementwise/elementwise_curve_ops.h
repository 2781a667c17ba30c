// Trigonometric and hyperbolic functions and their inverses, one row each; elementwise_ops.h
// explains what a row is.

#pragma once

#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::ops {

// -- Trigonometric functions ----------------------------------------------------------------------

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

struct Tan : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "tan";
  static constexpr auto forward(auto x) { return tan(x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * (1 + y * y); }
};

struct Asin : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "asin";
  static constexpr auto forward(auto x) { return asin(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad / sqrt(1 - x * x); }
};

struct Acos : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "acos";
  static constexpr auto forward(auto x) { return acos(x); }
  static constexpr auto backward(const auto& grad, const auto& x) {
    return -grad / sqrt(1 - x * x);
  }
};

struct Atan : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "atan";
  static constexpr auto forward(auto x) { return atan(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad / (1 + x * x); }
};

/// The angle of the point (b, a), in (-pi, pi].
struct Atan2 : BinaryRow<Domain::real, kBoth, kBoth> {
  static constexpr const char* kName = "atan2";
  static constexpr auto forward(auto a, auto b) { return atan2(a, b); }
  /// 1 / (a^2 + b^2), but 0 for the point (0, 0), which has no angle: PyTorch's choice
  static constexpr auto inverse_square(const auto& a, const auto& b) {
    const auto square = a * a + b * b;
    return where(square == 0, 0, 1 / where(square == 0, 1, square));
  }
  static constexpr auto backward_a(const auto& grad, const auto& a, const auto& b) {
    return grad * (b * inverse_square(a, b));
  }
  static constexpr auto backward_b(const auto& grad, const auto& a, const auto& b) {
    return -grad * (a * inverse_square(a, b));
  }
};

// -- Hyperbolic functions -------------------------------------------------------------------------

struct Sinh : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "sinh";
  static constexpr auto forward(auto x) { return sinh(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad * cosh(x); }
};

struct Cosh : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "cosh";
  static constexpr auto forward(auto x) { return cosh(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad * sinh(x); }
};

struct Tanh : UnaryRow<Domain::real, Saves::output> {
  static constexpr const char* kName = "tanh";
  static constexpr auto forward(auto x) { return tanh(x); }
  static constexpr auto backward(const auto& grad, const auto& y) { return grad * (1 - y * y); }
};

struct Asinh : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "asinh";
  static constexpr auto forward(auto x) { return asinh(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad / sqrt(x * x + 1); }
};

struct Acosh : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "acosh";
  static constexpr auto forward(auto x) { return acosh(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad / sqrt(x * x - 1); }
};

struct Atanh : UnaryRow<Domain::real, Saves::input> {
  static constexpr const char* kName = "atanh";
  static constexpr auto forward(auto x) { return atanh(x); }
  static constexpr auto backward(const auto& grad, const auto& x) { return grad / (1 - x * x); }
};

}  // namespace ringrad::ops
