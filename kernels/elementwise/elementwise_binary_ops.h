// The binary elementwise operators, one row each; elementwise_ops.h explains what a row is.
//
// backward_a and backward_b are the gradients of the operands as if nothing were broadcast.

#pragma once

#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::ops {

struct Add : BinaryRow<Domain::number> {
  static constexpr const char* kName = "add";
  static constexpr auto forward(auto a, auto b) { return a + b; }
  static constexpr auto backward_a(const auto& grad, const auto&, const auto&) { return grad; }
  static constexpr auto backward_b(const auto& grad, const auto&, const auto&) { return grad; }
};

struct Sub : BinaryRow<Domain::number> {
  static constexpr const char* kName = "sub";
  static constexpr auto forward(auto a, auto b) { return a - b; }
  static constexpr auto backward_a(const auto& grad, const auto&, const auto&) { return grad; }
  static constexpr auto backward_b(const auto& grad, const auto&, const auto&) { return -grad; }
};

struct Mul : BinaryRow<Domain::number, kB, kA> {
  static constexpr const char* kName = "mul";
  static constexpr auto forward(auto a, auto b) { return a * b; }
  static constexpr auto backward_a(const auto& grad, const auto&, const auto& b) {
    return grad * b;
  }
  static constexpr auto backward_b(const auto& grad, const auto& a, const auto&) {
    return grad * a;
  }
};

struct Div : BinaryRow<Domain::real, kB, kBoth> {
  static constexpr const char* kName = "div";
  static constexpr auto forward(auto a, auto b) { return a / b; }
  static constexpr auto backward_a(const auto& grad, const auto&, const auto& b) {
    return grad / b;
  }
  static constexpr auto backward_b(const auto& grad, const auto& a, const auto& b) {
    return -grad * (a / b / b);  // b * b might overflow or underflow
  }
};

/// relu(a + b), the end of a residual block, in one pass.
struct AddRelu : BinaryRow<Domain::number> {
  static constexpr const char* kName = "add_relu";
  static constexpr auto forward(auto a, auto b) { return where(a + b < 0, 0, a + b); }
};

/// The conditions replace 0 * inf by the limit: the power is constant in a where b = 0, and in b
/// where a = 0 and b >= 0. They select before the product with grad; otherwise a second derivative
/// would multiply the discarded value by 0.
struct Pow : BinaryRow<Domain::number, kBoth, kBoth> {
  static constexpr const char* kName = "pow";
  static constexpr auto forward(auto a, auto b) { return power(a, b); }
  static constexpr auto backward_a(const auto& grad, const auto& a, const auto& b) {
    return grad * where(b == 0, 0, b * pow(a, b - 1));
  }
  static constexpr auto backward_b(const auto& grad, const auto& a, const auto& b) {
    const auto slope = pow(a, b) * log(a);
    return grad * where(a == 0, where(b >= 0, 0, slope), slope);
  }
};

/// NaN if either operand is NaN; both then receive the gradient, so that the NaN reaches its
/// source. Where the operands are equal, each receives half of the gradient.
struct Maximum : BinaryRow<Domain::number, kBoth, kBoth> {
  static constexpr const char* kName = "maximum";
  static constexpr auto forward(auto a, auto b) { return where(a > b || a != a, a, b); }
  static constexpr auto backward_a(const auto& grad, const auto& a, const auto& b) {
    return where(a < b, 0, where(a == b, grad / 2, grad));
  }
  static constexpr auto backward_b(const auto& grad, const auto& a, const auto& b) {
    return where(a > b, 0, where(a == b, grad / 2, grad));
  }
};

/// Treats NaN and equal operands as Maximum does.
struct Minimum : BinaryRow<Domain::number, kBoth, kBoth> {
  static constexpr const char* kName = "minimum";
  static constexpr auto forward(auto a, auto b) { return where(a < b || a != a, a, b); }
  static constexpr auto backward_a(const auto& grad, const auto& a, const auto& b) {
    return where(a > b, 0, where(a == b, grad / 2, grad));
  }
  static constexpr auto backward_b(const auto& grad, const auto& a, const auto& b) {
    return where(a < b, 0, where(a == b, grad / 2, grad));
  }
};

struct Eq : BinaryRow<Domain::any> {
  static constexpr const char* kName = "eq";
  static constexpr bool forward(auto a, auto b) { return a == b; }
};

struct Ne : BinaryRow<Domain::any> {
  static constexpr const char* kName = "ne";
  static constexpr bool forward(auto a, auto b) { return a != b; }
};

struct Lt : BinaryRow<Domain::any> {
  static constexpr const char* kName = "lt";
  static constexpr bool forward(auto a, auto b) { return a < b; }
};

struct Le : BinaryRow<Domain::any> {
  static constexpr const char* kName = "le";
  static constexpr bool forward(auto a, auto b) { return a <= b; }
};

struct Gt : BinaryRow<Domain::any> {
  static constexpr const char* kName = "gt";
  static constexpr bool forward(auto a, auto b) { return a > b; }
};

struct Ge : BinaryRow<Domain::any> {
  static constexpr const char* kName = "ge";
  static constexpr bool forward(auto a, auto b) { return a >= b; }
};

struct LogicalAnd : BinaryRow<Domain::logical> {
  static constexpr const char* kName = "logical_and";
  static constexpr bool forward(bool a, bool b) { return a && b; }
};

struct LogicalOr : BinaryRow<Domain::logical> {
  static constexpr const char* kName = "logical_or";
  static constexpr bool forward(bool a, bool b) { return a || b; }
};

}  // namespace ringrad::ops
