// Tiles of scores on a CPU: products of packed operands (attention_pack.h), which leave out the
// parts that no query uses.
//
//                    panels of 2 vectors of keys
//                  +--------+--------+--------+--------+
//     blocks of    |########|        .        .        |        # computed: some query of the block
//     8 queries    |########|########.        .        |          may attend to some key of the
//                  |########|########|        .        |          panel
//                  |########|########|########.        |        . skipped by every product
//                  +--------+--------+--------+--------+
//
// Private to kernels/attention.

#pragma once

#include <algorithm>
#include <cstdint>

#include "ringrad/kernels/attention/attention_pack.h"
#include "ringrad/kernels/problem/attention_problem.h"

namespace ringrad::kernels::attention_tile {

inline constexpr std::int64_t kRows = 8;      // queries, or keys, of a register tile
inline constexpr std::int64_t kQueries = 64;  // of a tile of scores

/// The tile of queries [t0, t0 + queries) and keys [s0, s0 + keys) of head h.
struct Tile {
  const AttentionProblem& a;
  std::int64_t b, h, t0, queries, s0, keys;

  /// The range of keys that the kRows queries from t0 + i on use, extended to whole panels and
  /// counted from s0.
  template <class M>
  AttentionRange panels_of_block(std::int64_t i) const {
    if (i >= queries) return {0, 0};
    const std::int64_t first = t0 + i, last = t0 + std::min(i + kRows, queries) - 1;
    return inside(a.keys_of(first).begin - s0, a.keys_of(last).end - s0, keys, kPanel<M>);
  }
  /// The range of queries that use the kRows keys from s0 + j on, extended to whole blocks and
  /// counted from t0.
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

// In attention_tile_cpu.cc, for both types of arithmetic:

/// scores (queries, keys) = left (queries, depth) times the panels of right (depth, keys), where
/// blocks of queries use them.
void multiply_panels(const Tile& tile, std::int64_t depth, const float* left, std::int64_t left_row,
                     const float* panels, float* scores);
void multiply_panels(const Tile& tile, std::int64_t depth, const double* left,
                     std::int64_t left_row, const double* panels, double* scores);

/// sums (queries, width) += scores (queries, keys) * right (keys, width)
void add_over_keys(const Tile& tile, const float* scores, const float* right, std::int64_t width,
                   float* sums);
void add_over_keys(const Tile& tile, const double* scores, const double* right, std::int64_t width,
                   double* sums);

/// sums (keys, width) += scores (queries, keys) transposed, times right (queries, width)
void add_over_queries(const Tile& tile, const float* scores, const float* right, std::int64_t width,
                      float* sums);
void add_over_queries(const Tile& tile, const double* scores, const double* right,
                      std::int64_t width, double* sums);

}  // namespace ringrad::kernels::attention_tile
