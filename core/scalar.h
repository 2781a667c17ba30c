// Scalar: one number of any arithmetic type, so that `x * 2`, `x * 0.5` and `full(shape, 1)` need
// one overload each.

#pragma once

#include <concepts>
#include <cstdint>

#include "ringrad/core/dtype.h"

namespace ringrad {

class Scalar {
 public:
  template <class T>
  requires std::integral<T>
  constexpr Scalar(T value)
      : dtype_(std::same_as<T, bool> ? DType::bool_ : DType::int64),
        integer_(static_cast<std::int64_t>(value)) {}

  template <class T>
  requires std::floating_point<T>
  constexpr Scalar(T value) : dtype_(DType::float64), real_(static_cast<double>(value)) {}

  Scalar(float16 value) : Scalar(static_cast<float>(value)) {}
  Scalar(bfloat16 value) : Scalar(static_cast<float>(value)) {}

  constexpr bool is_floating() const { return dtype_ == DType::float64; }

  /// The kind of number: float64, int64 or bool_.
  DType dtype() const { return dtype_; }

  /// The value as an element of type T.
  template <class T>
  constexpr T to() const {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
      return T(to<float>());
    else
      return is_floating() ? static_cast<T>(real_) : static_cast<T>(integer_);
  }

 private:
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
