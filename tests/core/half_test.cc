// float16 is compared with the compiler's own _Float16, over all its values and over all points
// halfway between neighbours, where rounding is decided. bfloat16 has no such partner; its
// reference is the definition of rounding.

#include "ringrad/core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ringrad/core/random/philox.h"

namespace ringrad {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float compiler_to_float(std::uint16_t bits) { return std::bit_cast<_Float16>(bits); }
std::uint16_t compiler_from_float(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

// The bfloat16 nearest to a finite value; of two equally near ones, that with an even mantissa. The
// value one step above the largest bfloat16 counts as a neighbour: values nearer to it become
// infinity.
std::uint16_t nearest_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto toward_zero = static_cast<std::uint16_t>(bits >> 16);
  const auto magnitude = [](std::uint16_t half) {
    if ((half & 0x7fff) == 0x7f80) return 0x1p128;
    return std::abs(double{std::bit_cast<float>(std::uint32_t{half} << 16)});
  };
  const auto away = static_cast<std::uint16_t>(toward_zero + 1);
  const double exact = std::abs(double{value});
  const double below = exact - magnitude(toward_zero), above = magnitude(away) - exact;
  if (below != above) return below < above ? toward_zero : away;
  return toward_zero & 1 ? away : toward_zero;
}

TEST(Float16Test, EveryValueConvertsAsInTheCompiler) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = float16::to_float(bits);
    const float expected = compiler_to_float(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(std::isnan(float16::to_float(float16::from_float(value)))) << i;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected)) << i;
    ASSERT_EQ(float16::from_float(value), bits) << i;
  }
}

TEST(Float16Test, RoundsToNearestWithTiesToEven) {
  for (std::uint16_t bits = 0; bits < 0x7c00; ++bits) {  // every finite positive value
    const float low = float16::to_float(bits);
    // The successor of the largest value would be 65536; from halfway to it on, values round to
    // infinity.
    const float high =
        bits == 0x7bff ? 65536.0f : float16::to_float(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    const std::uint16_t even = bits & 1 ? bits + 1 : bits;
    ASSERT_EQ(float16::from_float(middle), even) << middle;
    ASSERT_EQ(float16::from_float(std::nextafter(middle, 0.0f)), bits) << middle;
    ASSERT_EQ(float16::from_float(std::nextafter(middle, kInfinity)), bits + 1) << middle;
    ASSERT_EQ(float16::from_float(-middle), even | 0x8000) << middle;
  }
}

TEST(Float16Test, AnyFloatConvertsAsInTheCompiler) {
  for (std::uint64_t k = 0; k < 250'000; ++k) {
    for (const std::uint32_t word : philox(1, k)) {
      const auto value = std::bit_cast<float>(word);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(float16::to_float(float16::from_float(value)))) << word;
      else
        ASSERT_EQ(float16::from_float(value), compiler_from_float(value)) << value;
      // The interesting range is a small part of float's: scale into it.
      const float inside = std::ldexp(std::bit_cast<float>((word & 0x807fffffu) | 0x3f800000u),
                                      static_cast<int>(word >> 23 & 63) - 40);
      ASSERT_EQ(float16::from_float(inside), compiler_from_float(inside)) << inside;
    }
  }
}

TEST(BFloat16Test, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto value = std::bit_cast<float>(i << 16);
    const bfloat16 half(value);
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(static_cast<float>(half))) << i;
    else
      ASSERT_EQ(half.bits, i);
  }
}

TEST(BFloat16Test, RoundsToNearestWithTiesToEven) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto value = std::bit_cast<float>(i << 16 | low);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(bfloat16(value).bits, nearest_bfloat16(value)) << value;
    }
  }
}

TEST(BFloat16Test, KeepsNansWhoseBitsAreAllInTheLowerHalf) {
  for (const std::uint32_t word : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu})
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(word))))) << word;
}

TEST(BFloat16Test, OverflowsToInfinity) {
  EXPECT_EQ(static_cast<float>(bfloat16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(static_cast<float>(bfloat16(-std::numeric_limits<float>::max())), -kInfinity);
}

}  // namespace
}  // namespace ringrad
