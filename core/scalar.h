// Scalar: one number of any arithmetic type, so that `x * 2`, `x * 0.5` and `full(shape, 1)` need
// one overload each.

#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

#include "ringrad/core/dtype.h"

namespace ringrad {

class Scalar {
 public:
  template <class T>
  requires(std::integral<T> &&
           (std::signed_integral<T> || sizeof(T) < sizeof(std::int64_t))) constexpr Scalar(T value)
      : dtype_(std::same_as<T, bool> ? DType::bool_ : DType::int64),
        integer_(static_cast<std::int64_t>(value)) {}

  template <class T>
  requires std::floating_point<T>
  constexpr Scalar(T value) : dtype_(DType::float64), real_(static_cast<double>(value)) {}

  /// Throws ValueError for a number that does not fit in int64.
  template <class T>
  requires(std::unsigned_integral<T> && sizeof(T) == sizeof(std::int64_t))
      Scalar(T value, Where where = Where::current())
      : dtype_(DType::int64), integer_(static_cast<std::int64_t>(value)) {
    if (integer_ < 0) [[unlikely]]
      throw_above_int64(value, where);
  }

  Scalar(float16 value) : Scalar(static_cast<float>(value)) {}
  Scalar(bfloat16 value) : Scalar(static_cast<float>(value)) {}

  constexpr bool is_floating() const { return dtype_ == DType::float64; }

  /// The kind of number: float64, int64 or bool_.
  DType dtype() const { return dtype_; }

  /// True if T can hold the number, or its whole part: no integer type holds NaN. Always true for
  /// floating types, which round every number, and for bool, which holds its truth value.
  template <class T>
  constexpr bool fits() const {
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
      return true;
    } else {
      using Limits = std::numeric_limits<T>;
      if (is_floating()) {
        constexpr auto kLow = static_cast<double>(Limits::min());
        constexpr double kEnd = static_cast<double>(Limits::max() / 2 + 1) * 2;
        return (real_ >= kLow || real_ > kLow - 1) && real_ < kEnd;
      }
      return std::in_range<T>(integer_);
    }
  }

  /// The value as a number of type T. Throws ValueError unless it fits.
  template <class T>
  T to(Where where = Where::current()) const {
    if constexpr (std::is_integral_v<T>)
      if (!fits<T>()) [[unlikely]]
        throw_does_not_fit(std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), where);
    return as<T>();
  }

  /// The same without the check, for loops and GPU kernels. REQUIRES: fits<T>()
  template <class T>
  constexpr T as() const {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
      return T(as<float>());
    else
      return is_floating() ? static_cast<T>(real_) : static_cast<T>(integer_);
  }

 private:
  [[noreturn]] static void throw_above_int64(std::uint64_t value, Where where);
  [[noreturn]] void throw_does_not_fit(std::int64_t low, std::uint64_t high, Where where) const;

  DType dtype_;
  union {
    std::int64_t integer_;
    double real_;
  };
};

/// The dtype of `x op scalar`: a number never widens a tensor of its own class, but a floating
/// number turns an integer tensor into float32.
inline DType promote(DType tensor, const Scalar& scalar) {
  if (ringrad::is_floating(tensor)) return tensor;
  if (scalar.is_floating()) return DType::float32;
  if (tensor == DType::bool_ && scalar.dtype() == DType::int64) return DType::int64;
  return tensor;
}

}  // namespace ringrad
