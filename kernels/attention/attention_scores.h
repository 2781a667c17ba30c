// From products of queries and keys to probabilities on a CPU: a row of scores at a time.
//
//     x = scale * q . k / ln 2        a score, as a power of two: scale / ln 2 is packed into q
//     mask_scores                     restricts it to allowed keys, and adds the mask
//     raise_two                       2^x
//     DropoutFactors                  what a probability is multiplied by
//
// All functions here are inlined into callers marked RINGRAD_CLONES. Private to kernels/attention.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "ringrad/core/random/philox.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/attention/attention.h"
#include "ringrad/kernels/attention/attention_pack.h"
#include "ringrad/kernels/attention/attention_tile.h"

namespace ringrad::kernels::attention_tile {

/// x = 2^x for x up to about 0, within 2 units in the last place; 0 below the normal numbers.
///
///     x = n + f,  |f| <= 1/2,    2^f = sum over k of (f ln 2)^k / k!,    n goes to the exponent
template <class M>
RINGRAD_INLINE void raise_two(typename Vector<M>::type& x) {
  using V = typename Vector<M>::type;
  using Int = std::conditional_t<std::is_same_v<M, double>, std::int64_t, std::int32_t>;
  typedef Int Ints __attribute__((vector_size(64)));
  constexpr int kMantissa = std::numeric_limits<M>::digits - 1;
  constexpr int kTerms = std::is_same_v<M, double> ? 13 : 6;  // (ln 2 / 2)^(k+1) / (k+1)! < epsilon
  constexpr M kLowest = std::numeric_limits<M>::min_exponent - 1;
  // Adding 1.5 * 2^kMantissa leaves the nearest integer in the low bits.
  constexpr M kRound = 3 * static_cast<M>(std::int64_t{1} << (kMantissa - 1));
  const V lowest = V{} + kLowest, round = V{} + kRound;

  const V clamped = x < lowest ? lowest : x;
  const V shifted = clamped + round;
  const V f = (clamped - (shifted - round)) * std::numbers::ln2_v<M>;
  V sum = V{} + M{1} / kTerms;
#pragma GCC unroll 16
  for (int k = kTerms - 1; k > 0; --k) sum = (sum * f + M{1}) * (M{1} / k);
  sum = sum * f + M{1};
  const Ints power = ((Ints)shifted - (Ints)round + (1 - std::numeric_limits<M>::min_exponent + 1))
                     << kMantissa;
  x = x < lowest ? V{} : sum * (V)power;
}

template <class M>
RINGRAD_INLINE M largest_of(const typename Vector<M>::type& v) {
  M largest = v[0];
  for (int i = 1; i < kLanes<M>; ++i) largest = v[i] > largest ? v[i] : largest;
  return largest;
}

template <class M>
RINGRAD_INLINE M sum_of(const typename Vector<M>::type& v) {
  M sum = 0;
  for (int i = 0; i < kLanes<M>; ++i) sum += v[i];
  return sum;
}

/// The number that is subtracted from a row's scores before they become exponents: the largest
/// score, or 0 if no score counts.
template <class M>
RINGRAD_INLINE M shift_of(M largest) {
  return largest == -std::numeric_limits<M>::infinity() ? M{0} : largest;
}

/// The mask of one head.
template <class M>
struct Mask {
  const bool* allowed = nullptr;
  const M* added = nullptr;
  std::int64_t row = 0, column = 0;  // strides

  Mask(const Tensor& mask, std::int64_t b, std::int64_t h) {
    if (!mask.defined()) return;
    const std::int64_t offset = b * mask.strides()[0] + h * mask.strides()[1];
    if (mask.dtype() == DType::bool_)
      allowed = mask.data<const bool>() + offset;
    else
      added = mask.data<const M>() + offset;
    row = mask.strides()[2];
    column = mask.strides()[3];
  }
};

/// Restricts and masks the scores x (in powers of two) of query t for keys [begin, end).
template <class M>
RINGRAD_INLINE void mask_scores(const AttentionProblem& a, const Mask<M>& mask, std::int64_t t,
                                std::int64_t begin, std::int64_t end, M* x) {
  constexpr M kNever = -std::numeric_limits<M>::infinity();
  const std::int64_t inside = std::min(end, a.S) - begin;
  if (mask.allowed) {
    const bool* allowed = mask.allowed + t * mask.row + begin * mask.column;
    for (std::int64_t j = 0; j < inside; ++j) x[j] = allowed[j * mask.column] ? x[j] : kNever;
  } else if (mask.added) {
    const M* added = mask.added + t * mask.row + begin * mask.column;
    for (std::int64_t j = 0; j < inside; ++j) x[j] += as_power_of_two(added[j * mask.column]);
  }
  const AttentionRange keys = a.keys_of(t);
  for (std::int64_t j = begin; j < std::min(keys.begin, end); ++j) x[j - begin] = kNever;
  for (std::int64_t j = std::max(keys.end, begin); j < end; ++j) x[j - begin] = kNever;
}

/// Factors of the probabilities of query t for keys [begin, end): 0 or 1 / (1 - p).
template <class M>
class DropoutFactors {
 public:
  DropoutFactors(const AttentionDropout& dropout)
      : seed_(dropout.seed),
        counter_(dropout.counter.value),
        words_(dropout.last_kept_word()),
        scale_(static_cast<M>(dropout.scale())) {}

  RINGRAD_INLINE void draw(const Tile& tile, std::int64_t t, std::int64_t begin, std::int64_t end,
                           M* factors) const {
    const AttentionProblem& a = tile.a;
    const auto first =
        static_cast<std::uint64_t>(((tile.b * a.H + tile.h) * a.T + t) * a.S + begin);
    const auto count = static_cast<std::uint64_t>(end - begin);
    for (std::uint64_t i = first / 4; i * 4 < first + count; ++i) {
      const auto four = philox(seed_, counter_ + i);
      for (std::uint64_t j = 0; j < 4; ++j) {
        const std::uint64_t at = i * 4 + j - first;  // wraps before the first
        if (at < count) factors[at] = std::int64_t{four[j]} <= words_ ? scale_ : M{0};
      }
    }
  }

 private:
  std::uint64_t seed_, counter_;
  std::int64_t words_;
  M scale_;
};

}  // namespace ringrad::kernels::attention_tile
