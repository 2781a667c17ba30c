// The building blocks of the table of elementwise operators. The rows are in the headers
// elementwise_*_ops.h beside this one.
//
//     struct Tanh : UnaryRow<Domain::real, Saves::output> {
//       static constexpr const char* kName = "tanh";
//       static auto forward(auto x) { return tanh(x); }
//       static auto backward(const auto& grad, const auto& y) { return grad * (1 - y * y); }
//     };
//
// The formula `forward` is compiled for plain numbers, for the CPU and, since it is constexpr, for
// GPUs. The derivative `backward` is written once and compiled twice:
//
//     float, double   in one loop over the gradient and the saved tensor: the usual backward pass
//     Tensor          with public operators, exp(Tensor) or Tensor * Tensor, which are found by
//                     argument-dependent lookup: a backward pass that is itself recorded
//
// A derivative therefore uses only what numbers and tensors share: + - * /, comparisons, functions
// of <cmath>, and the vocabulary below. Integer literals combine exactly with everything; other
// numbers are written like(x, 0.5), so that float loops stay float loops.
//
// A new operator is a row in each of six files, which CONTRIBUTING.md lists.

#pragma once

#include <cmath>
#include <type_traits>

#include "ringrad/core/base/error.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/scalar.h"
#include "ringrad/kernels/elementwise/math.h"

namespace ringrad::ops {

/// The dtypes that a row computes in; operands are converted first.
enum class Domain {
  number,    ///< integers and floats as they are; no bool
  real,      ///< floats as they are; integers and bool become float32
  any,       ///< every dtype as it is
  integral,  ///< integers and bool as they are; no floats
  logical,   ///< every dtype becomes bool: different from zero
};

/// What the derivative of a unary row needs besides the incoming gradient.
enum class Saves { nothing, input, output };

template <Domain domain, Saves saves = Saves::nothing>
struct UnaryRow {
  static constexpr Domain kDomain = domain;
  static constexpr Saves kSaves = saves;
};

/// Which operands the derivatives of a binary row read, as a set.
enum Operands : unsigned { kNeither = 0, kA = 1, kB = 2, kBoth = 3 };

template <Domain domain, Operands saved_for_a = kNeither, Operands saved_for_b = kNeither>
struct BinaryRow {
  static constexpr Domain kDomain = domain;
  static constexpr Operands kSavedForA = saved_for_a, kSavedForB = saved_for_b;
};

// -- The vocabulary that plain numbers share with tensors -----------------------------------------

using std::abs, std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh,
    std::ceil, std::copysign, std::cos, std::cosh, std::erf, std::exp, std::expm1, std::floor,
    std::fmod, std::log, std::log1p, std::pow, std::sin, std::sinh, std::sqrt, std::tan, std::tanh,
    std::trunc;

template <class T>
concept Number = std::is_arithmetic_v<T>;

/// `value` as an operand for x: of x's own type if x is a plain number.
template <class V>
constexpr auto like(const V&, Scalar value) {
  if constexpr (Number<V>)
    return value.as<V>();
  else
    return value;
}

/// A zero of x's kind; unlike 0 * x, it is zero even where x is infinite.
template <class V>
constexpr V zero_like(const V& x) {
  if constexpr (Number<V>)
    return V(0);
  else
    return zeros(x.shape(), {.dtype = x.dtype(), .device = x.device()});
}

template <class A, class B>
constexpr auto where(bool condition, A a, B b) -> std::common_type_t<A, B> {
  return condition ? a : b;
}

template <Number T>
constexpr T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

/// base^exponent. Integers use repeated squaring and wrap around; 1 / base^n rounds towards zero.
template <Number T>
constexpr T power(T base, T exponent) {
  if constexpr (!std::is_integral_v<T>) {
    return pow(base, exponent);
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0 && base != 1 && base != -1) return 0;
      if (exponent < 0) return exponent % 2 == 0 ? 1 : base;
    }
    T result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
      if (exponent % 2 != 0) result *= base;
    return result;
  }
}

/// a + weight (b - a); from the nearer end, so that weights 0 and 1 give a and b exactly.
template <Number T>
constexpr T interpolate(T a, T b, T weight) {
  return weight < T(0.5) && weight > T(-0.5) ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

}  // namespace ringrad::ops
