// Divisor: a number by which many threads divide.
//
// A GPU has no instruction for n / d; a 32-bit division takes some twenty instructions. With m and
// s computed in advance, it is a multiplication and a shift:
//
//     n / d = (floor(n m / 2^32) + n) >> s,   s = ceil(log2 d),   m = floor(2^32 (2^s - d) / d) + 1
//
// Paper: Granlund, Montgomery 1994, "Division by invariant integers using multiplication", figure
// 4.1. For n below 2^31 the sum does not overflow.

#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace ringrad::kernels {

/// A divisor, which converts to its number. Int is int32_t or int64_t; 64-bit numbers are divided
/// as usual.
template <class Int>
class Divisor {
  static_assert(std::is_same_v<Int, std::int32_t> || std::is_same_v<Int, std::int64_t>);

 public:
  Divisor() = default;
  /// REQUIRES: 0 < value
  constexpr Divisor(Int value) : value_(value) {
    const auto d = static_cast<std::uint64_t>(value);
    shift_ = static_cast<std::uint32_t>(std::bit_width(d - 1));
    if constexpr (sizeof(Int) == 4)
      factor_ = static_cast<std::uint32_t>((((std::uint64_t{1} << shift_) - d) << 32) / d + 1);
  }

  constexpr operator Int() const { return value_; }

  /// REQUIRES: 0 <= n
  friend constexpr Int operator/(Int n, const Divisor& d) {
    if constexpr (sizeof(Int) == 8) return n / d.value_;
    const auto numerator = static_cast<std::uint32_t>(n);
    const auto high = static_cast<std::uint32_t>((std::uint64_t{numerator} * d.factor_) >> 32);
    return static_cast<Int>((high + numerator) >> d.shift_);
  }

 private:
  Int value_ = 1;
  std::uint32_t factor_ = 1, shift_ = 0;
};

}  // namespace ringrad::kernels
