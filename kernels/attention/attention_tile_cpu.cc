// The products of tiles, and the transposition before them. They take long to compile, with their
// copies for several instruction sets, so they exist once, for both passes.

#include "ringrad/core/simd.h"
#include "ringrad/kernels/attention/attention_tile.h"
#include "ringrad/kernels/vector_lanes.h"

namespace ringrad::kernels::attention_tile {
namespace {

template <class M>
RINGRAD_INLINE void transpose_panels(RowsOf<M> from, std::int64_t columns, std::int64_t count,
                                     M* to) {
  for (std::int64_t p = 0; p < count; p += kPanel<M>, to += columns * kPanel<M>)
    for (std::int64_t half = 0; half < kPanel<M>; half += kLanes<M>) {
      const M* rows = from.data + (p + half) * from.row;
      std::int64_t j = 0;
      for (; j + kLanes<M> <= columns; j += kLanes<M>) {
        typename Vector<M>::type square[kLanes<M>];
#pragma GCC unroll 16
        for (int i = 0; i < kLanes<M>; ++i) square[i] = Vector<M>::at(rows + i * from.row + j);
        transpose_square<M>(square);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes<M>; ++i)
          Vector<M>::at(to + (j + i) * kPanel<M> + half) = square[i];
      }
      for (; j < columns; ++j)
        for (std::int64_t i = 0; i < kLanes<M>; ++i)
          to[j * kPanel<M> + half + i] = rows[i * from.row + j];
    }
}

template <class M>
RINGRAD_INLINE void multiply(const Tile& tile, std::int64_t depth, const M* left,
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

template <class M>
RINGRAD_INLINE void add_keys(const Tile& tile, const M* scores, const M* right, std::int64_t width,
                             M* sums) {
  for (std::int64_t i = 0; i < tile.queries; i += kRows) {
    const auto [begin, end] = tile.panels_of_block<M>(i);
    if (begin < end)
      add_product<M>(end - begin, width, {scores + i * tile.keys + begin, tile.keys, 1},
                     right + begin * width, sums + i * width);
  }
}

template <class M>
RINGRAD_INLINE void add_queries(const Tile& tile, const M* scores, const M* right,
                                std::int64_t width, M* sums) {
  for (std::int64_t j = 0; j < tile.keys; j += kRows) {
    const auto [begin, end] = tile.blocks_of_keys(j);
    if (begin < end)
      add_product<M>(end - begin, width, {scores + begin * tile.keys + j, 1, tile.keys},
                     right + begin * width, sums + j * width);
  }
}

}  // namespace

RINGRAD_CLONES void pack_panels(RowsOf<float> from, std::int64_t columns, std::int64_t count,
                                float* to) {
  transpose_panels(from, columns, count, to);
}

RINGRAD_CLONES void pack_panels(RowsOf<double> from, std::int64_t columns, std::int64_t count,
                                double* to) {
  transpose_panels(from, columns, count, to);
}

RINGRAD_CLONES void multiply_panels(const Tile& tile, std::int64_t depth, const float* left,
                                    std::int64_t left_row, const float* panels, float* scores) {
  multiply(tile, depth, left, left_row, panels, scores);
}

RINGRAD_CLONES void multiply_panels(const Tile& tile, std::int64_t depth, const double* left,
                                    std::int64_t left_row, const double* panels, double* scores) {
  multiply(tile, depth, left, left_row, panels, scores);
}

RINGRAD_CLONES void add_over_keys(const Tile& tile, const float* scores, const float* right,
                                  std::int64_t width, float* sums) {
  add_keys(tile, scores, right, width, sums);
}

RINGRAD_CLONES void add_over_keys(const Tile& tile, const double* scores, const double* right,
                                  std::int64_t width, double* sums) {
  add_keys(tile, scores, right, width, sums);
}

RINGRAD_CLONES void add_over_queries(const Tile& tile, const float* scores, const float* right,
                                     std::int64_t width, float* sums) {
  add_queries(tile, scores, right, width, sums);
}

RINGRAD_CLONES void add_over_queries(const Tile& tile, const double* scores, const double* right,
                                     std::int64_t width, double* sums) {
  add_queries(tile, scores, right, width, sums);
}

}  // namespace ringrad::kernels::attention_tile
