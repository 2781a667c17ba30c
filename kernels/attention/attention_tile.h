// Tiles of scores on a CPU: how operands are packed, multiplied, and restricted to allowed keys.
//
//                    panels of 2 vectors of keys
//                  +--------+--------+--------+--------+
//     blocks of    |########|        .        .        |        # computed: some query of the block
//     8 queries    |########|########.        .        |          may attend to some key of the
//                  |########|########|        .        |          panel
//                  |########|########|########.        |        . skipped by every product
//                  +--------+--------+--------+--------+
//
// All functions here are inlined into callers marked RINGRAD_CLONES. Operands are in the type of
// the arithmetic, padded with zeros, so that no loop has a tail. Private to kernels/attention.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "ringrad/core/philox.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/attention/attention.h"
#include "ringrad/kernels/register_tile.h"

#define RINGRAD_INLINE [[gnu::always_inline]] inline

namespace ringrad::kernels::attention_tile {

inline constexpr std::int64_t kRows = 8;      // queries, or keys, of a register tile
inline constexpr std::int64_t kQueries = 64;  // of a tile of scores

template <class M>
inline constexpr std::int64_t kLanes = Vector<M>::kLanes;
template <class M>
inline constexpr std::int64_t kPanel = 2 * kLanes<M>;  // keys

constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

/// One head's matrix (rows, columns) in a tensor of any strides.
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, columns, row, column;  // extents, then strides

  Matrix(const Tensor& x, std::int64_t b, std::int64_t h)
      : data(x.data<T>() + b * x.strides()[0] + h * x.strides()[1]),
        rows(x.shape()[2]),
        columns(x.shape()[3]),
        row(x.strides()[2]),
        column(x.strides()[3]) {}
};

// -- Packing --------------------------------------------------------------------------------------

/// to (count, width) = factor * rows [first, first + count) of x; zeros outside of x.
template <class M, class T>
RINGRAD_INLINE void pack_rows(const Matrix<T>& x, std::int64_t first, std::int64_t count,
                              std::int64_t width, M factor, M* to) {
  for (std::int64_t i = 0; i < count; ++i, to += width) {
    const std::int64_t columns = first + i < x.rows ? x.columns : 0;
    const T* from = x.data + (first + i) * x.row;
    if (x.column == 1)
      for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<M>(from[j]) * factor;
    else
      for (std::int64_t j = 0; j < columns; ++j)
        to[j] = static_cast<M>(from[j * x.column]) * factor;
    for (std::int64_t j = columns; j < width; ++j) to[j] = 0;
  }
}

/// The kLanes elements from `from` on, converted.
template <class T, class V>
RINGRAD_INLINE void load_vector(const T* from, V& v) {
  using M = MathType<T>;
  if constexpr (std::is_same_v<T, M>) {
    v = Vector<M>::at(from);
  } else {
    M values[kLanes<M>];
    for (int lane = 0; lane < kLanes<M>; ++lane) values[lane] = static_cast<M>(from[lane]);
    v = Vector<M>::at(values);
  }
}

/// Exchanges the lanes of a whose number has the bit `half` with those of b whose number lacks it.
template <class M>
RINGRAD_INLINE void exchange_lanes(int half, typename Vector<M>::type& a,
                                   typename Vector<M>::type& b) {
  constexpr int kCount = Vector<M>::kLanes;
  using Int = std::conditional_t<std::is_same_v<M, double>, std::int64_t, std::int32_t>;
  typedef Int Ints __attribute__((vector_size(64)));
  Ints to_a{}, to_b{};  // lanes of (a, b)
  for (int lane = 0; lane < kCount; ++lane) {
    to_a[lane] = lane & half ? kCount + lane - half : lane;
    to_b[lane] = lane & half ? kCount + lane : lane + half;
  }
  const typename Vector<M>::type old_a = a;
  a = __builtin_shuffle(old_a, b, to_a);
  b = __builtin_shuffle(old_a, b, to_b);
}

/// Makes lane j of vector i lane i of vector j.
template <class M>
RINGRAD_INLINE void transpose_square(typename Vector<M>::type (&v)[Vector<M>::kLanes]) {
#pragma GCC unroll 4
  for (int half = Vector<M>::kLanes / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < Vector<M>::kLanes; ++i)
      if (!(i & half)) exchange_lanes<M>(half, v[i], v[i + half]);
}

/// Lane i of v[0] becomes the sum of the lanes of v[i]; the other vectors are used up.
template <class M>
RINGRAD_INLINE void sum_each(typename Vector<M>::type (&v)[Vector<M>::kLanes]) {
#pragma GCC unroll 4
  for (int half = Vector<M>::kLanes / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {
      exchange_lanes<M>(half, v[i], v[i + half]);
      v[i] += v[i + half];
    }
}

/// to (panels, columns, kPanel): rows [first, first + count) of x, transposed within each panel.
/// REQUIRES: count is a multiple of kPanel
template <class M, class T>
RINGRAD_INLINE void pack_panels(const Matrix<T>& x, std::int64_t first, std::int64_t count, M* to) {
  for (std::int64_t p = 0; p < count; p += kPanel<M>, to += x.columns * kPanel<M>)
    for (std::int64_t half = 0; half < kPanel<M>; half += kLanes<M>) {
      const std::int64_t row = first + p + half;
      const T* from = x.data + row * x.row;
      std::int64_t j = 0;
      if (x.column == 1 && row + kLanes<M> <= x.rows)
        for (; j + kLanes<M> <= x.columns; j += kLanes<M>) {
          typename Vector<M>::type square[kLanes<M>];
#pragma GCC unroll 16
          for (int i = 0; i < kLanes<M>; ++i) load_vector(from + i * x.row + j, square[i]);
          transpose_square<M>(square);
#pragma GCC unroll 16
          for (int i = 0; i < kLanes<M>; ++i)
            Vector<M>::at(to + (j + i) * kPanel<M> + half) = square[i];
        }
      for (; j < x.columns; ++j)
        for (std::int64_t i = 0; i < kLanes<M>; ++i)
          to[j * kPanel<M> + half + i] =
              row + i < x.rows ? static_cast<M>(from[i * x.row + j * x.column]) : M{0};
    }
}

/// x's rows [first, first + count) = factor * from (count, width).
template <class M, class T>
RINGRAD_INLINE void unpack_rows(const M* from, std::int64_t width, std::int64_t first,
                                std::int64_t count, M factor, const Matrix<T>& x) {
  for (std::int64_t i = 0; i < std::min(count, x.rows - first); ++i, from += width) {
    T* to = x.data + (first + i) * x.row;
    if (x.column == 1)
      for (std::int64_t j = 0; j < x.columns; ++j) to[j] = static_cast<T>(from[j] * factor);
    else
      for (std::int64_t j = 0; j < x.columns; ++j)
        to[j * x.column] = static_cast<T>(from[j] * factor);
  }
}

// -- Exponentials ---------------------------------------------------------------------------------

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

// -- A tile's keys --------------------------------------------------------------------------------

/// The tile of queries [t0, t0 + queries) and keys [s0, s0 + keys) of head h.
struct Tile {
  const AttentionProblem& a;
  std::int64_t b, h, t0, queries, s0, keys;

  /// [begin, end) of the keys, counted from s0 and in whole panels, that the kRows queries from t0
  /// + i on use.
  template <class M>
  AttentionRange panels_of_block(std::int64_t i) const {
    if (i >= queries) return {0, 0};
    const std::int64_t first = t0 + i, last = t0 + std::min(i + kRows, queries) - 1;
    return inside(a.keys_of(first).begin - s0, a.keys_of(last).end - s0, keys, kPanel<M>);
  }
  /// [begin, end) of the queries, counted from t0 and in whole blocks, that use the kRows keys from
  /// s0 + j on.
  AttentionRange blocks_of_keys(std::int64_t j) const {
    const std::int64_t first = s0 + j, last = std::min(s0 + j + kRows, a.S) - 1;
    if (first > last) return {0, 0};
    return inside(a.queries_of(first).begin - t0, a.queries_of(last).end - t0, queries, kRows);
  }

 private:
  static AttentionRange inside(std::int64_t begin, std::int64_t end, std::int64_t size,
                               std::int64_t step) {
    const std::int64_t from = std::max<std::int64_t>(begin, 0), to = std::min(end, size);
    if (from >= to) return {0, 0};
    return {from / step * step, round_up(to, step)};
  }
};

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
    for (std::int64_t j = 0; j < inside; ++j)
      x[j] += added[j * mask.column] * std::numbers::log2e_v<M>;
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

// -- Products -------------------------------------------------------------------------------------

/// scores (queries, keys) = left (queries, depth) times the panels of right (depth, keys), where
/// blocks of queries use them.
template <class M>
RINGRAD_INLINE void multiply_panels(const Tile& tile, std::int64_t depth, const M* left,
                                    std::int64_t left_row, const M* panels, M* scores) {
  for (std::int64_t j = 0; j < tile.keys; j += kPanel<M>)
    for (std::int64_t i = 0; i < tile.queries; i += kRows) {
      const AttentionRange used = tile.panels_of_block<M>(i);
      if (j < used.begin || j >= used.end) continue;
      multiply_tile<M, kRows, 2, false>(depth, {left + i * left_row, left_row, 1},
                                        panels + j * depth, kPanel<M>, scores + i * tile.keys + j,
                                        tile.keys);
    }
}

/// c (kRows, width) += a (kRows, depth) * b (depth, width)
template <class M>
RINGRAD_INLINE void add_product(std::int64_t depth, std::int64_t width, Operand<M> a, const M* b,
                                M* c) {
  std::int64_t j = 0;
  for (; j + kPanel<M> <= width; j += kPanel<M>)
    multiply_tile<M, kRows, 2, true>(depth, a, b + j, width, c + j, width);
  if (j < width) multiply_tile<M, kRows, 1, true>(depth, a, b + j, width, c + j, width);
}

/// sums (queries, width) += scores (queries, keys) * right (keys, width)
template <class M>
RINGRAD_INLINE void add_over_keys(const Tile& tile, const M* scores, const M* right,
                                  std::int64_t width, M* sums) {
  for (std::int64_t i = 0; i < tile.queries; i += kRows) {
    const auto [begin, end] = tile.panels_of_block<M>(i);
    if (begin < end)
      add_product<M>(end - begin, width, {scores + i * tile.keys + begin, tile.keys, 1},
                     right + begin * width, sums + i * width);
  }
}

/// sums (keys, width) += scores (queries, keys) transposed, times right (queries, width)
template <class M>
RINGRAD_INLINE void add_over_queries(const Tile& tile, const M* scores, const M* right,
                                     std::int64_t width, M* sums) {
  for (std::int64_t j = 0; j < tile.keys; j += kRows) {
    const auto [begin, end] = tile.blocks_of_keys(j);
    if (begin < end)
      add_product<M>(end - begin, width, {scores + begin * tile.keys + j, 1, tile.keys},
                     right + begin * width, sums + j * width);
  }
}

}  // namespace ringrad::kernels::attention_tile
