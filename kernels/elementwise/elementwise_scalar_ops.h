// Elementwise operators of a tensor and numbers, one row each; elementwise_ops.h explains what a
// row is. RightScalar and LeftScalar turn a binary operator into such a row.

#pragma once

#include <cmath>

#include "ringrad/core/base/error.h"
#include "ringrad/core/check_fits.h"
#include "ringrad/core/dtype.h"
#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::ops {

/// The dtype of `x op number`. Throws ValueError for a number that an integer dtype cannot hold.
inline DType promote_number(const char* operation, DType x, Scalar number, Where where) {
  const DType dtype = promote(x, number);
  check_fits(operation, number, dtype, where);
  return dtype;
}

/// The dtype in which Op computes x and a number. Throws ValueError for a number that an integer
/// result cannot hold. Quotients take any number, since they are floating. Comparisons take any
/// number as well: they compute in int64 if the promoted dtype cannot hold it.
template <class Op>
DType promote_operand(DType x, Scalar number, Where where) {
  constexpr bool is_predicate = std::is_same_v<decltype(Op::forward(0, 0)), bool>;
  const DType dtype = promote(x, number);
  if (Op::kDomain == Domain::real) return dtype;
  if (is_predicate && !dispatch_dtype(dtype, [&]<class T>() { return number.fits<T>(); }))
    return DType::int64;
  return promote_number(Op::kName, x, number, where);
}

/// x op number
template <class Op>
struct RightScalar : UnaryRow<Op::kDomain, (Op::kSavedForA & kA) ? Saves::input : Saves::nothing> {
  static constexpr const char* kName = Op::kName;
  Scalar number;

  explicit RightScalar(Scalar number) : number(number) {}
  DType promoted(DType x, Where where) const { return promote_operand<Op>(x, number, where); }
  constexpr auto forward(auto x) const { return Op::forward(x, like(x, number)); }
  constexpr auto backward(const auto& grad, const auto& x) const {
    return Op::backward_a(grad, x, like(grad, number));
  }
};

/// number op x
template <class Op>
struct LeftScalar : UnaryRow<Op::kDomain, (Op::kSavedForB & kB) ? Saves::input : Saves::nothing> {
  static constexpr const char* kName = Op::kName;
  Scalar number;

  explicit LeftScalar(Scalar number) : number(number) {}
  DType promoted(DType x, Where where) const { return promote_operand<Op>(x, number, where); }
  constexpr auto forward(auto x) const { return Op::forward(like(x, number), x); }
  constexpr auto backward(const auto& grad, const auto& x) const {
    return Op::backward_b(grad, like(grad, number), x);
  }
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
    const auto n = exponent.as<double>();
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
    const auto slope = y * like(y, std::log(base.as<double>()));
    // 0^x is 1, 0 or infinite. Where it is finite the formula would give 0 * -inf.
    return grad * (base.as<double>() == 0 ? where(y <= 1, 0, slope) : slope);
  }
};

}  // namespace ringrad::ops
