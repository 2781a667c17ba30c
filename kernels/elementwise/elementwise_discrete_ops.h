// Elementwise operators that round, divide with a remainder, replace special values, or work on
// bits. elementwise_ops.h explains what a row is.

#pragma once

#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::ops {

// -- Of one operand -------------------------------------------------------------------------------

/// Rounds towards zero.
struct Trunc : UnaryRow<Domain::number> {
  static constexpr const char* kName = "trunc";
  template <class T>
  static constexpr T forward(T x) {
    return std::is_integral_v<T> ? x : static_cast<T>(trunc(x));
  }
  static constexpr auto backward(const auto& grad, const auto&) { return zero_like(grad); }
};

/// x, with numbers in place of NaN, inf and -inf. The replaced elements get no gradient.
struct NanToNum : UnaryRow<Domain::number, Saves::input> {
  static constexpr const char* kName = "nan_to_num";
  double nan, high, low;

  NanToNum(double nan, double high, double low) : nan(nan), high(high), low(low) {}
  template <class T>
  constexpr T forward(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      constexpr T kInfinity = std::numeric_limits<T>::infinity();
      if (x != x) return static_cast<T>(nan);
      return x == kInfinity ? static_cast<T>(high) : x == -kInfinity ? static_cast<T>(low) : x;
    }
  }
  static constexpr auto backward(const auto& grad, const auto& x) {
    return where(x - x == 0, grad, 0);
  }
};

struct BitwiseNot : UnaryRow<Domain::integral> {
  static constexpr const char* kName = "bitwise_not";
  template <class T>
  static constexpr T forward(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};

// -- Of two operands ------------------------------------------------------------------------------

/// a / b rounded down. An integer divided by 0 gives 0, as in NumPy; the machine's instruction
/// would stop the program. The smallest integer divided by -1 wraps around.
template <Number T>
constexpr T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1)
        return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
      return a / b - (a % b != 0 && (a < 0) != (b < 0));
    } else {
      return a / b;
    }
  } else {
    if (b == 0) return a / b;
    // a - fmod is a multiple of b up to rounding, so the quotient is nearly a whole number.
    const T rest = fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return copysign(T(0), a / b);
    const T below = floor(quotient);
    return quotient - below > T(0.5) ? below + 1 : below;
  }
}

/// a - b floor_divide(a, b), exactly; it has the sign of b. If b is 0: NaN, or 0 for integers.
template <Number T>
constexpr T remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    if (b == 0) return 0;
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  } else {
    const T rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

struct FloorDivide : BinaryRow<Domain::number> {
  static constexpr const char* kName = "floor_divide";
  template <class T>
  static constexpr T forward(T a, T b) {
    return floor_divide(a, b);
  }
  static constexpr auto backward_a(const auto& grad, const auto&, const auto&) {
    return zero_like(grad);
  }
  static constexpr auto backward_b(const auto& grad, const auto&, const auto&) {
    return zero_like(grad);
  }
};

struct Remainder : BinaryRow<Domain::number, kNeither, kBoth> {
  static constexpr const char* kName = "remainder";
  template <class T>
  static constexpr T forward(T a, T b) {
    return remainder(a, b);
  }
  static constexpr auto backward_a(const auto& grad, const auto&, const auto&) { return grad; }
  static constexpr auto backward_b(const auto& grad, const auto& a, const auto& b) {
    return -grad * floor_divide(a, b);
  }
};

struct BitwiseAnd : BinaryRow<Domain::integral> {
  static constexpr const char* kName = "bitwise_and";
  template <class T>
  static constexpr T forward(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitwiseOr : BinaryRow<Domain::integral> {
  static constexpr const char* kName = "bitwise_or";
  template <class T>
  static constexpr T forward(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitwiseXor : BinaryRow<Domain::integral> {
  static constexpr const char* kName = "bitwise_xor";
  template <class T>
  static constexpr T forward(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace ringrad::ops
