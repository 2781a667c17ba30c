// float16 and bfloat16: 16-bit storage formats whose arithmetic happens in float32.
//
//     float16    s eeeee mmmmmmmmmm      5 exponent bits, 10 of mantissa, IEEE 754 binary16
//     bfloat16   s eeeeeeee mmmmmmm      the upper half of a float32
//
// Conversions from float round to nearest, ties to even, and keep NaN a NaN. They use only integers
// and selects, so that loops over them vectorise on every instruction set. They are constexpr, so
// that kernels on a GPU can call them.

#pragma once

#include <bit>
#include <cstdint>

namespace ringrad {

struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  explicit constexpr float16(float value) : bits(from_float(value)) {}
  constexpr operator float() const { return to_float(bits); }

  static constexpr std::uint16_t from_float(float value);
  static constexpr float to_float(std::uint16_t bits);
};

struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit constexpr bfloat16(float value) : bits(from_float(value)) {}
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  static constexpr std::uint16_t from_float(float value);
};

// Implementation details follow.

constexpr std::uint16_t bfloat16::from_float(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  // Adding 0x7fff plus the lowest kept bit carries exactly when nearest-even rounds up.
  const std::uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (word >> 16) | 0x40u;
  const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded);
}

constexpr std::uint16_t float16::from_float(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16) & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;

  // Normal range: rebias the exponent from 127 to 15 and round 23 mantissa bits to 10.
  const std::uint32_t rebiased = magnitude - (112u << 23);
  const std::uint32_t normal = (rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13;
  // Below 2^-14: adding 0.5 makes the float adder shift and round the mantissa into the low bits.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;

  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // 65520 and above round to infinity
  result = magnitude > 0x7f800000u ? 0x7e00u : result;   // NaN
  return static_cast<std::uint16_t>(sign | result);
}

constexpr float float16::to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t magnitude = std::uint32_t{bits & 0x7fffu} << 13;
  // Scaling by 2^112 rebiases the exponent and normalises subnormals in one exact multiplication.
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const bool not_finite = magnitude >= (0x7c00u << 13);
  return std::bit_cast<float>(sign | (not_finite ? magnitude | 0x7f800000u : scaled));
}

}  // namespace ringrad
