#include "core/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <type_traits>

#include "core/dtype.h"
#include "core/philox.h"
#include "core/shape.h"
#include "core/simd.h"

namespace ringrad {
namespace {

// Words are drawn in blocks that stay in the first-level cache between being made and being turned
// into numbers.
constexpr int kBlockCounters = 128;
constexpr int kBlockWords = 4 * kBlockCounters;
using Block = std::array<std::uint32_t, kBlockWords>;

// The words a math type is made from: one for float, two for double.
template <class Math>
using Word = std::conditional_t<std::is_same_v<Math, double>, std::uint64_t, std::uint32_t>;

template <class T>
constexpr int kElementsPerBlock = sizeof(Block) / sizeof(Word<MathType<T>>);

template <class Math, int kExponent>
constexpr Math kOverPowerOfTwo = 1 /
                                 (Math{2} * static_cast<Math>(std::uint64_t{1} << (kExponent - 1)));

template <std::size_t kBytes>
using UnsignedOfSize = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

// Significant bits of a floating type.
template <class T>
constexpr int kDigits = std::is_same_v<T, float16>    ? 11
                        : std::is_same_v<T, bfloat16> ? 8
                                                      : std::numeric_limits<MathType<T>>::digits;

template <class W>
W word_at(const Block& block, int i) {
  if constexpr (sizeof(W) == sizeof(std::uint32_t))
    return block[static_cast<unsigned>(i)];
  else
    return block[static_cast<unsigned>(2 * i)] | W{block[static_cast<unsigned>(2 * i + 1)]} << 32;
}

// c[0] + c[1] x + c[2] x^2 + ...
template <class Math, std::size_t kTerms>
Math polynomial(const std::array<Math, kTerms>& c, Math x) {
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
Math logarithm(Math x) {
  constexpr int kMantissa = std::numeric_limits<Math>::digits - 1;
  constexpr Math kSqrtHalf = std::numbers::sqrt2_v<Math> / 2;
  constexpr auto kTerms =
      std::is_same_v<Math, float> ? 5 : 11;  // 0.03^kTerms / (2 kTerms + 1) < epsilon
  constexpr auto kSeries = [] {
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

// Sine and cosine of word / 2^bits of a full turn. The nearest quarter turn is split off in exact
// integer arithmetic, and Taylor's series serve the remaining angle, at most pi / 4.
template <class Math>
SineCosine<Math> turn(Word<Math> word) {
  constexpr int kBits = std::numeric_limits<Word<Math>>::digits;
  constexpr auto kTerms =
      std::is_same_v<Math, float> ? 6 : 10;      // (pi/4)^(2 kTerms) / (2 kTerms)! < epsilon
  constexpr auto kSeries = [](unsigned first) {  // 1/first!, -1/(first + 2)!, ...
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
  static constexpr int kElements = kElementsPerBlock<T>;
  Math low, width;
  Math greatest;  // the largest T below high, for sums that round up to it

  void operator()(const Block& block, T* out) const {
    constexpr int kBits = std::numeric_limits<Word<Math>>::digits;
    constexpr Math kUnit = kOverPowerOfTwo<Math, kDigits<T>>;
    for (int i = 0; i < kElements; ++i) {
      // No more bits than T holds, so that converting to T cannot round up to 1.
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
  static constexpr int kElements = kElementsPerBlock<T>;
  Math mean, deviation;

  // Box and Muller 1958: for independent uniform u in (0, 1] and angle a, the numbers
  // sqrt(-2 ln u) cos a and sqrt(-2 ln u) sin a are independent and standard normal.
  void operator()(const Block& block, T* out) const {
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
struct BernoulliDraw {
  static constexpr int kElements = kBlockWords;
  // A choice between integers vectorises; one between structs, such as float16, does not.
  using Bits = UnsignedOfSize<sizeof(T)>;
  std::uint32_t last;  // words up to this one give `hit`, the others 0
  T hit;

  void operator()(const Block& block, T* out) const {
    const Bits hit_bits = std::bit_cast<Bits>(hit);
    for (unsigned i = 0; i < kElements; ++i)
      out[i] = std::bit_cast<T>(block[i] <= last ? hit_bits : Bits{0});
  }
};

template <class T, class Draw>
RINGRAD_CLONES void fill_block(std::uint64_t seed, std::uint64_t counter, T* out, Draw draw) {
  Block block;
  for (unsigned k = 0; k < kBlockCounters; ++k) {
    const auto words = philox(seed, counter + k);
    for (unsigned j = 0; j < 4; ++j) block[4 * k + j] = words[j];
  }
  draw(block, out);
}

template <class T, class Draw>
void fill_contiguous(T* out, std::int64_t count, std::uint64_t seed, std::uint64_t counter,
                     Draw draw) {
  constexpr int kElements = Draw::kElements;
  for (; count >= kElements; count -= kElements, out += kElements, counter += kBlockCounters)
    fill_block(seed, counter, out, draw);
  if (count == 0) return;
  std::array<T, kElements> rest;
  fill_block(seed, counter, rest.data(), draw);
  std::copy_n(rest.data(), count, out);
}

// Fills x in row-major order of its elements, whatever its strides; the counters used do not depend
// on them.
template <class T, class Draw>
void fill(const Tensor& x, Generator& generator, Draw draw, Where where) {
  constexpr std::uint64_t kWords = kBlockWords / Draw::kElements;
  const auto words = static_cast<std::uint64_t>(x.numel()) * kWords;
  const std::uint64_t counter = generator.reserve(words);
  if (x.is_contiguous()) {
    fill_contiguous(x.data<T>(), x.numel(), generator.seed(), counter, draw);
  } else {
    const Tensor values = empty(x.shape(), {.dtype = x.dtype()}, where);
    const T* value = values.data<T>();
    fill_contiguous(values.data<T>(), x.numel(), generator.seed(), counter, draw);
    T* out = x.data<T>();
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) { out[offset] = *value++; });
  }
  x.mark_changed(where);
}

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

}  // namespace

std::uint64_t Generator::below(std::uint64_t bound) {
  // The 2^64 words do not divide evenly by bound; dropping the first 2^64 mod bound of them makes
  // them.
  const std::uint64_t dropped = (0 - bound) % bound;
  while (true) {
    const auto words = philox(seed_, reserve(2));
    const std::uint64_t word = words[0] | std::uint64_t{words[1]} << 32;
    if (word >= dropped) return word % bound;
  }
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator() = Generator(seed); }

void uniform_(const Tensor& x, double low, double high, Generator& generator, Where where) {
  check_floating("uniform_", x, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const auto from = static_cast<Math>(low), to = static_cast<Math>(high);
    RINGRAD_CHECK(low <= high && std::isfinite(to - from), ValueError, where,
                  "uniform_: low <= high must hold and both be finite; got ", low, " and ", high);
    fill<T>(x, generator, UniformDraw<T>{from, to - from, greatest_below<T>(to, from)}, where);
  });
}

void normal_(const Tensor& x, double mean, double deviation, Generator& generator, Where where) {
  check_floating("normal_", x, where);
  RINGRAD_CHECK(deviation >= 0, ValueError, where, "normal_: deviation must not be negative; got ",
                deviation);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    fill<T>(x, generator, NormalDraw<T>{static_cast<Math>(mean), static_cast<Math>(deviation)},
            where);
  });
}

void bernoulli_(const Tensor& x, double probability, Generator& generator, Where where) {
  RINGRAD_CHECK(probability >= 0 && probability <= 1, ValueError, where,
                "bernoulli_: probability must be in [0, 1]; got ", probability);
  const auto hits =
      static_cast<std::uint64_t>(std::llround(probability * 0x1p32));  // of 2^32 words
  dispatch_dtype(x.dtype(), [&]<class T>() {
    const BernoulliDraw<T> draw{static_cast<std::uint32_t>(hits - (hits > 0)),
                                Scalar(hits > 0 ? 1 : 0).to<T>()};
    fill<T>(x, generator, draw, where);
  });
}

Tensor rand(const Shape& shape, const Options& options, Generator& generator, Where where) {
  Tensor result = empty(shape, options, where);
  uniform_(result, 0, 1, generator, where);
  return result;
}

Tensor randn(const Shape& shape, const Options& options, Generator& generator, Where where) {
  Tensor result = empty(shape, options, where);
  normal_(result, 0, 1, generator, where);
  return result;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator,
               Where where) {
  RINGRAD_CHECK(low < high, ValueError, where, "randint: low must be below high; got ", low,
                " and ", high);
  Tensor result = empty(shape, {.dtype = DType::int64}, where);
  const auto base =
      static_cast<std::uint64_t>(low);  // unsigned, because high - low may exceed int64
  const std::uint64_t range = static_cast<std::uint64_t>(high) - base;
  std::generate_n(result.data<std::int64_t>(), result.numel(),
                  [&] { return static_cast<std::int64_t>(base + generator.below(range)); });
  return result;
}

// Fisher and Yates: each position in turn swaps with one of those not yet settled, itself included.
Tensor randperm(std::int64_t n, Generator& generator, Where where) {
  RINGRAD_CHECK(n >= 0, ValueError, where, "randperm: n must not be negative; got ", n);
  Tensor result = arange(n, where);
  auto* values = result.data<std::int64_t>();
  for (std::int64_t left = n; left > 1; --left)
    std::swap(values[left - 1], values[generator.below(static_cast<std::uint64_t>(left))]);
  return result;
}

}  // namespace ringrad
