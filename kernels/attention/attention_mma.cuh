// The parts of attention on tensor cores, for 16-bit floats. Private to
// kernels/attention/attention_mma_*_cuda.cu.
//
// A block of threads owns 64 rows, of queries or of keys, and goes through the rows of the other
// side in steps. A warp owns 16 of the rows; its scores and sums stay in registers, in the layout
// of multiply_add() (mma.cuh):
//
//                  a step's rows                        size of a head
//               +---------+---------+            +---------+---------+---------+
//     warp 0 16 | 16 x 16 | 16 x 16 |         16 |  sums   |         |         |
//     warp 1 16 |         |         |         16 |         |         |         |
//          ...
//               scores of the step               what the step adds to:  weights * rows
//
// While a step is computed, copies for the next one are in flight. In shared memory a row of kD
// elements is kD / 8 chunks of 16 bytes. The chunks of 8 rows at the same columns must lie in
// different groups of banks, so their order is permuted:
//
//     kD = 64, 128     chunk c of row i is at place c ^ (i % 8)
//     kD = 32, 96      c ^ (i / 2 % 4): two rows at a time have different groups already

#pragma once

#include <bit>
#include <cstdint>

#include "ringrad/kernels/attention/attention_owned_rows.cuh"
#include "ringrad/kernels/attention/attention_scores.cuh"
#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/matmul/async_copy.cuh"
#include "ringrad/kernels/matmul/mma.cuh"

namespace ringrad::kernels::cuda {

/// A lane's share of 16 x 16 * kBlocks numbers.
template <int kBlocks>
using Blocks = float[kBlocks][2][4];

/// visit(block, half, element, i, c) for each of a lane's numbers: in row g + 8 * i and column
/// 2t + c of the warp's 16 rows (mma.cuh).
template <int kBlocks, class Visit>
__device__ void for_each_number(Visit visit) {
#pragma unroll
  for (int j = 0; j < kBlocks; ++j)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int e = 0; e < 4; ++e) visit(j, h, e, e / 2, 16 * j + 8 * h + e % 2);
}

// -- Rows in memory -------------------------------------------------------------------------------

/// The rows of one head. REQUIRES: columns lie side by side, and every 8 of them fill 16 aligned
/// bytes
template <class T>
struct HeadRows {
  T* data;
  std::int64_t row;  // stride
  std::int64_t rows;
  int columns;

  template <class Extent>
  __device__ HeadRows(const Heads<T>& x, std::int64_t b, std::int64_t h, std::int64_t num_rows,
                      Extent num_columns)
      : data(x.find(b, h, 0)), row(x.row), rows(num_rows), columns(static_cast<int>(num_columns)) {}

  /// The address of an element; null if it lies outside of the head.
  __device__ T* find(std::int64_t i, int column) const {
    return i < rows && column < columns ? data + i * row + column : nullptr;
  }
};

/// Starts the copies of kRows rows from `first` on into a tile, with zeros outside of x.
template <int kRows, int kD, class T>
__device__ void start_copies(AsyncCopies& copies, const HeadRows<const T>& x, std::int64_t first,
                             uint4* tile);

enum class Tile { left_rows, right_rows, right_columns };

/// The 16 x 16 block at (row, column) of a tile, as a factor of multiply_add(). kTile says what a
/// row of the tile is: i of a left factor, j of a right factor, or k of a right factor.
template <Tile kTile, int kD>
__device__ Fragment load_block(const uint4* tile, unsigned row, unsigned column);

/// Rows [first, first + 16) as left factors, with zeros outside of x.
template <int kBlocks, class T>
__device__ void load_rows(Fragment (&to)[kBlocks], const HeadRows<const T>& x, std::int64_t first) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int k = 0; k < kBlocks; ++k)
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const T* from = x.find(first + g + q % 2 * 8, 16 * k + q / 2 * 8 + 2 * t);
      to[k].r[q] =
          from ? std::bit_cast<std::uint32_t>(*reinterpret_cast<const Pack<T, 2>*>(from)) : 0;
    }
}

/// Rows [first, first + 16) of x = factor[i] * sums.
template <int kBlocks, class T>
__device__ void write_rows(const Blocks<kBlocks>& sums, const float (&factor)[2],
                           const HeadRows<T>& x, std::int64_t first) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for_each_number<kBlocks>([&](int j, int h, int e, int i, int c) {
    if (e % 2 == 1) return;  // written together with the number before it
    T* to = x.find(first + g + 8 * i, c + 2 * t);
    const float* pair = &sums[j][h][e];
    if (to)
      *reinterpret_cast<Pack<T, 2>*>(to) =
          std::bit_cast<Pack<T, 2>>(round_pair<T>(pair[0] * factor[i], pair[1] * factor[i]));
  });
}

// -- Products -------------------------------------------------------------------------------------

/// scores += owned rows (16, kD) times the rows (16 * kBlocks, kD) of a tile. owned(k): the warp's
/// k-th block of 16 columns.
template <class T, int kD, int kBlocks, class Owned>
__device__ void multiply_rows(Blocks<kBlocks>& scores, Owned owned, const uint4* tile) {
#pragma unroll
  for (int k = 0; k < kD / 16; ++k) {
    const Fragment left = owned(k);
#pragma unroll
    for (int j = 0; j < kBlocks; ++j)
      multiply_add<T>(scores[j], left, load_block<Tile::right_rows, kD>(tile, 16 * j, 16 * k));
  }
}

/// sums (16, kD) += weights (16, 16 * kBlocks) times the rows (16 * kBlocks, kD) of a tile.
template <class T, int kD, int kBlocks>
__device__ void add_rows(Blocks<kD / 16>& sums, const Blocks<kBlocks>& weights, const uint4* tile) {
#pragma unroll
  for (int k = 0; k < kBlocks; ++k) {
    const Fragment left = as_left_factor<T>(weights[k]);
#pragma unroll
    for (int j = 0; j < kD / 16; ++j)
      multiply_add<T>(sums[j], left, load_block<Tile::right_columns, kD>(tile, 16 * k, 16 * j));
  }
}

// Implementation details follow.

template <int kD>
__device__ unsigned chunk_at(unsigned row, unsigned chunk) {
  return row * (kD / 8) + (kD % 64 == 0 ? chunk ^ (row & 7) : chunk ^ (row / 2 & 3));
}

template <int kRows, int kD, class T>
__device__ void start_copies(AsyncCopies& copies, const HeadRows<const T>& x, std::int64_t first,
                             uint4* tile) {
  constexpr unsigned kChunks = kD / 8;  // of a row
  static_assert(kRows * kChunks % kOwners == 0);
#pragma unroll
  for (unsigned n = 0; n < kRows * kChunks; n += kOwners) {
    const unsigned row = (threadIdx.x + n) / kChunks, chunk = (threadIdx.x + n) % kChunks;
    copies.start(&tile[chunk_at<kD>(row, chunk)], x.find(first + row, static_cast<int>(chunk * 8)));
  }
}

template <Tile kTile, int kD>
__device__ Fragment load_block(const uint4* tile, unsigned row, unsigned column) {
  const unsigned q = threadIdx.x % 32 / 8, j = threadIdx.x % 8;  // row j of r[q]
  const bool by_row = kTile != Tile::right_rows;  // r[1] is below r[0], else to its right
  row += (by_row ? q % 2 : q / 2) * 8;
  column += (by_row ? q / 2 : q % 2) * 8;
  return load_fragment<kTile == Tile::right_columns>(&tile[chunk_at<kD>(row + j, column / 8)]);
}

}  // namespace ringrad::kernels::cuda
