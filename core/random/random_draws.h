// Formulas that turn random words into elements. The CPU and the GPU compile them from one source,
// so that both draw the same bits. Private to core/random/.
//
// Words come in blocks of four per Philox counter. A draw turns a block of any number of counters
// into as many elements as its words suffice for.
//
// REQUIRES: compiled without contraction of a * b + c

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "ringrad/core/dtype.h"
#include "ringrad/core/random/philox.h"

namespace ringrad::draws {

template <int kCounters>
using Block = std::array<std::uint32_t, 4 * kCounters>;

/// The words of kCounters counters, from `counter` on.
template <int kCounters>
constexpr Block<kCounters> words(std::uint64_t seed, std::uint64_t counter) {
  Block<kCounters> block{};
  for (unsigned k = 0; k < kCounters; ++k) {
    const auto four = philox(seed, counter + k);
    for (unsigned j = 0; j < 4; ++j) block[4 * k + j] = four[j];
  }
  return block;
}

// The word that a number of the math type is made from: 32 bits for float, 64 for double.
template <class Math>
using Word = std::conditional_t<std::is_same_v<Math, double>, std::uint64_t, std::uint32_t>;

template <class Math, int kExponent>
inline constexpr Math kOverPowerOfTwo = 1 / (Math{2} * static_cast<Math>(std::uint64_t{1}
                                                                         << (kExponent - 1)));

template <std::size_t kBytes>
using UnsignedOfSize = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

// The number of significant bits of a floating type.
template <class T>
inline constexpr int kDigits =
    std::is_same_v<T, float16>    ? 11
    : std::is_same_v<T, bfloat16> ? 8
                                  : std::numeric_limits<MathType<T>>::digits;

template <class W, class Block>
constexpr W word_at(const Block& block, int i) {
  if constexpr (sizeof(W) == sizeof(std::uint32_t))
    return block[static_cast<unsigned>(i)];
  else
    return block[static_cast<unsigned>(2 * i)] | W{block[static_cast<unsigned>(2 * i + 1)]} << 32;
}

// c[0] + c[1] x + c[2] x^2 + ...
template <class Math, std::size_t kTerms>
constexpr Math polynomial(const std::array<Math, kTerms>& c, Math x) {
  Math sum = c[kTerms - 1];
  for (std::size_t k = kTerms - 1; k-- > 0;) sum = sum * x + c[k];
  return sum;
}

// ln x for a normal x > 0, to about two units in the last place.
//
//     x = 2^e m,  m in [sqrt(1/2), sqrt(2))       s = (m - 1) / (m + 1),  s^2 < 0.03
//     ln x = e ln 2 + 2 (s + s^3/3 + s^5/5 + ...)
//
// Positive floats are ordered as their bits, so subtracting the bits of sqrt(1/2) leaves e in the
// exponent field.
template <class Math>
constexpr Math logarithm(Math x) {
  constexpr int kMantissa = std::numeric_limits<Math>::digits - 1;
  constexpr Math kSqrtHalf = std::numbers::sqrt2_v<Math> / 2;
  constexpr auto kTerms =
      std::is_same_v<Math, float> ? 5 : 11;  // 0.03^kTerms / (2 kTerms + 1) < epsilon
  constexpr auto kSeries = [=] {
    std::array<Math, kTerms> c{};
    for (unsigned k = 0; k < kTerms; ++k) c[k] = Math{2} / static_cast<Math>(2 * k + 1);
    return c;
  }();
  using Bits = std::make_signed_t<Word<Math>>;
  constexpr Bits kLow = std::bit_cast<Bits>(kSqrtHalf);

  const Bits bits = std::bit_cast<Bits>(x);
  const Bits exponent = (bits - kLow) >> kMantissa;
  const Math m = std::bit_cast<Math>(bits - exponent * (Bits{1} << kMantissa));
  const Math s = (m - 1) / (m + 1);
  return static_cast<Math>(exponent) * std::numbers::ln2_v<Math> + s * polynomial(kSeries, s * s);
}

template <class Math>
struct SineCosine {
  Math sine, cosine;
};

// Sine and cosine of word / 2^bits of a full turn. Exact integer arithmetic splits off the nearest
// quarter turn; Taylor series then handle the remaining angle, at most pi / 4.
template <class Math>
constexpr SineCosine<Math> turn(Word<Math> word) {
  constexpr int kBits = std::numeric_limits<Word<Math>>::digits;
  constexpr auto kTerms =
      std::is_same_v<Math, float> ? 6 : 10;       // (pi/4)^(2 kTerms) / (2 kTerms)! < epsilon
  constexpr auto kSeries = [=](unsigned first) {  // 1/first!, -1/(first + 2)!, ...
    std::array<Math, kTerms> c{};
    double term = 1;
    for (unsigned k = 0; k < kTerms; ++k) {
      c[k] = static_cast<Math>(term);
      const unsigned n = 2 * k + first;
      term /= -static_cast<double>((n + 1) * (n + 2));
    }
    return c;
  };
  constexpr auto kSine = kSeries(1);
  constexpr auto kCosine = kSeries(0);
  using Signed = std::make_signed_t<Word<Math>>;
  constexpr Math kRadians = 2 * std::numbers::pi_v<Math> * kOverPowerOfTwo<Math, kBits>;

  const Word<Math> quarters = (word + (Word<Math>{1} << (kBits - 3))) >> (kBits - 2);
  const auto rest = static_cast<Signed>(word - (quarters << (kBits - 2)));
  const Math angle = static_cast<Math>(rest) * kRadians;
  const Math square = angle * angle;
  const Math s = angle * polynomial(kSine, square);
  const Math c = polynomial(kCosine, square);
  const Math sine = (quarters & 1) ? c : s;
  const Math cosine = (quarters & 1) ? s : c;
  return {(quarters & 2) ? -sine : sine, ((quarters + 1) & 2) ? -cosine : cosine};
}

// A draw turns the words of a block into elements.

template <class T>
struct UniformDraw {
  using Math = MathType<T>;
  static constexpr int kWords = sizeof(Word<Math>) / sizeof(std::uint32_t);  // per element
  Math low, width;
  Math greatest;  // the largest T below high, for sums that round up to it

  template <class Block>
  constexpr void operator()(const Block& block, T* out) const {
    constexpr int kElements = std::tuple_size_v<Block> / kWords;
    constexpr int kBits = std::numeric_limits<Word<Math>>::digits;
    constexpr Math kUnit = kOverPowerOfTwo<Math, kDigits<T>>;
    for (int i = 0; i < kElements; ++i) {
      // Use no more bits than T holds, so that converting to T cannot round up to 1.
      const auto digits = word_at<Word<Math>>(block, i) >> (kBits - kDigits<T>);
      const auto signed_digits = static_cast<std::make_signed_t<Word<Math>>>(digits);
      const Math value = T(low + width * (static_cast<Math>(signed_digits) * kUnit));
      out[i] = T(std::min(value, greatest));
    }
  }
};

template <class T>
struct NormalDraw {
  using Math = MathType<T>;
  static constexpr int kWords = sizeof(Word<Math>) / sizeof(std::uint32_t);  // per element
  Math mean, deviation;

  // Box and Muller 1958: for independent uniform u in (0, 1] and angle a, the numbers
  // sqrt(-2 ln u) cos a and sqrt(-2 ln u) sin a are independent and standard normal.
  template <class Block>
  constexpr void operator()(const Block& block, T* out) const {
    constexpr int kElements = std::tuple_size_v<Block> / kWords;
    using W = Word<Math>;
    constexpr Math kUnit = kOverPowerOfTwo<Math, std::numeric_limits<W>::digits>;
    for (int i = 0; i < kElements; i += 2) {
      // Half a unit keeps u from 0; it may round up to 1, whose logarithm is 0.
      const Math u = static_cast<Math>(word_at<W>(block, i)) * kUnit + kUnit / 2;
      const Math radius = std::sqrt(Math{-2} * logarithm(u));
      const auto [sine, cosine] = turn<Math>(word_at<W>(block, i + 1));
      out[i] = T(mean + deviation * (radius * cosine));
      out[i + 1] = T(mean + deviation * (radius * sine));
    }
  }
};

template <class T>
struct ExponentialDraw {
  using Math = MathType<T>;
  static constexpr int kWords = sizeof(Word<Math>) / sizeof(std::uint32_t);  // per element
  Math rate;

  // -ln(u) / rate for uniform u in (0, 1), where the distribution function inverts.
  template <class Block>
  constexpr void operator()(const Block& block, T* out) const {
    constexpr int kElements = std::tuple_size_v<Block> / kWords;
    constexpr int kBits = std::numeric_limits<Word<Math>>::digits;
    constexpr int kUsed = std::numeric_limits<Math>::digits - 1;
    constexpr Math kUnit = kOverPowerOfTwo<Math, kUsed>;
    for (int i = 0; i < kElements; ++i) {
      // One digit fewer than Math holds, and half a unit, keep u from 0 and from 1.
      const auto digits = word_at<Word<Math>>(block, i) >> (kBits - kUsed);
      const auto signed_digits = static_cast<std::make_signed_t<Word<Math>>>(digits);
      const Math u = static_cast<Math>(signed_digits) * kUnit + kUnit / 2;
      out[i] = T(-logarithm(u) / rate);
    }
  }
};

template <class T>
struct BernoulliDraw {
  static constexpr int kWords = 1;
  // A choice between integers vectorises; one between structs, such as float16, does not.
  using Bits = UnsignedOfSize<sizeof(T)>;
  std::uint32_t last;  // words up to this one give `hit`, the others 0
  T hit;

  template <class Block>
  constexpr void operator()(const Block& block, T* out) const {
    constexpr int kElements = std::tuple_size_v<Block> / kWords;
    const Bits hit_bits = std::bit_cast<Bits>(hit);
    for (unsigned i = 0; i < kElements; ++i)
      out[i] = std::bit_cast<T>(block[i] <= last ? hit_bits : Bits{0});
  }
};

// The largest T below `high`, or high itself if nothing lies between it and `low`.
template <class T>
T greatest_below(MathType<T> high, MathType<T> low) {
  const T rounded(high);
  if (MathType<T>(rounded) < high || high <= low) return rounded;
  if constexpr (sizeof(T) > 2) {
    return std::nextafter(rounded, low);
  } else {  // the same on the bits of a 16-bit type: magnitudes are ordered as integers
    T below = rounded;
    if (high > 0)
      --below.bits;
    else if (high < 0)
      ++below.bits;
    else
      below.bits = 0x8001;
    return below;
  }
}

}  // namespace ringrad::draws
