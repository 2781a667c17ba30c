// The parts of attention in registers, in plain float32 arithmetic without tensor cores. Private to
// kernels/attention/attention_registers_*_cuda.cu.
//
// A block of threads owns 64 rows, of queries or of keys, and goes through the rows of the other
// side in steps of 64. A warp has 16 rows of the 64 x 64 scores, and a thread has 8 x 4 scores in
// registers. Lane l has columns l % 16 + 16 * j, and these rows of its warp:
//
//     lanes 0 ... 15     rows 0, 1, 2, 3, 8, 9, 10, 11
//     lanes 16 ... 31    rows 4, 5, 6, 7, 12, 13, 14, 15
//
// 12 loads of 16 bytes from shared memory, of 8 + 4 rows, serve 128 multiplications. The scores
// become weights. Through shared memory, they reach the threads of the warp that compute the sums:
//
//     sums (64, D) += weights (64, 64) * rows of the other side (64, D)
//
// In shared memory, four columns are a quad, and quad c of row i is at place c ^ (i % 8). So the
// quads c of 8 neighbouring rows are in different banks, and so are those of rows i and i + 4.

#pragma once

#include <cstdint>

#include "ringrad/core/gpu/pack.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/attention/attention_owned_rows.cuh"
#include "ringrad/kernels/attention/attention_scores.cuh"

namespace ringrad::kernels::cuda {

using ringrad::cuda::Pack;

inline constexpr int kRowsEach = 8, kColumnsEach = 4;  // of a thread's scores
inline constexpr int kLanes = 16;                      // that share a row of scores
inline constexpr int kStep = kOwnedRows;               // rows of the other side in a step

using Quad = Pack<float, 4>;
using Scores = float[kRowsEach][kColumnsEach];

__device__ inline unsigned row_of(unsigned i) {
  return threadIdx.x / kWarp * 16 + threadIdx.x / kLanes % 2 * 4 + i / 4 * 8 + i % 4;
}
__device__ inline unsigned column_of(unsigned j) { return threadIdx.x % kLanes + j * kLanes; }

/// visit(i, j) for each of a thread's scores.
template <class Visit>
__device__ void for_each_score(Visit visit) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i)
#pragma unroll
    for (int j = 0; j < kColumnsEach; ++j) visit(i, j);
}

template <int kColumns>
__device__ unsigned quad_at(unsigned row, unsigned quad) {
  return row * (kColumns / 4) + (quad ^ row % 8);
}

/// An operand whose rows are loaded as tiles, with zeros outside.
template <class T>
struct TileSource : Heads<const T> {
  std::int64_t rows, columns;
  bool has_quads;  // neighbouring columns can be loaded four at a time

  explicit TileSource(const Tensor& x)
      : Heads<const T>(x), rows(x.shape()[2]), columns(x.shape()[3]) {
    has_quads = this->column == 1 && columns % 4 == 0 &&
                reinterpret_cast<std::uintptr_t>(x.raw_data()) % sizeof(Pack<T, 4>) == 0;
    for (int axis = 0; axis < 3; ++axis)
      has_quads &= x.shape()[axis] == 1 || x.strides()[axis] % 4 == 0;
  }

  /// Loads kStep rows and kColumns columns of a head, from (first, first_column) on. All threads
  /// take part, each with the same columns of every kApart-th row.
  template <int kColumns>
  __device__ void load(Quad* tile, std::int64_t b, std::int64_t h, std::int64_t first,
                       int first_column) const {
    constexpr unsigned kApart = kOwners / (kColumns / 4);
    const unsigned row = threadIdx.x / (kColumns / 4), quad = threadIdx.x % (kColumns / 4);
    const std::int64_t c = first_column + 4 * quad;
    const T* from = this->find(b, h, first + row) + c * this->column;
    const std::int64_t columns_left = columns - c, rows_left = columns_left > 0 ? rows - first : 0;
    if (has_quads) {
#pragma unroll  // so that the loads are under way together
      for (unsigned i = 0; i < kStep; i += kApart, from += kApart * this->row)
        tile[quad_at<kColumns>(row + i, quad)] = row + i < rows_left ? read(from) : Quad{};
      return;
    }
#pragma unroll 1
    for (unsigned i = row; i < kStep; i += kApart, from += kApart * this->row) {
      Quad values{};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (i < rows_left && e < columns_left)
          values.values[e] = static_cast<float>(from[e * this->column]);
      tile[quad_at<kColumns>(i, quad)] = values;
    }
  }

 private:
  static __device__ Quad read(const T* from) {
    const auto x = *reinterpret_cast<const Pack<T, 4>*>(from);
    Quad values;
#pragma unroll
    for (int e = 0; e < 4; ++e) values.values[e] = static_cast<float>(x.values[e]);
    return values;
  }
};

/// A head of an operand, in batch b.
template <class T>
struct TileHead {
  const TileSource<T>& x;
  std::int64_t b, h;

  template <int kColumns>
  __device__ void load(Quad* tile, std::int64_t first, int first_column) const {
    x.template load<kColumns>(tile, b, h, first, first_column);
  }
};

/// The shared memory of a block, and its products. Heads of more than 64 columns come in slices.
template <int kD>
struct Tiles {
  static constexpr int kColumns = kD < 64 ? kD : 64;
  static constexpr int kSlices = kD / kColumns;
  static constexpr int kWidth = kColumns / kLanes;  // a thread's columns of the sums in a slice
  static constexpr int kAtOnce = kColumns / 32;     // quads of a product: what fits in registers
  using Sums = float[kSlices][kRowsEach][kWidth];

  Quad left[kOwnedRows * kColumns / 4], right[kStep * kColumns / 4];
  Quad weights[kOwnedRows * kStep / 4];  // by row

  /// x += owned rows of `a` times rows of `b` from `first` on. left_is_there: the previous product
  /// had the same `a`. All threads take part.
  template <class T>
  __device__ void multiply(Scores& x, const OwnedRows& owned, const TileHead<T>& a,
                           const TileHead<T>& b, std::int64_t first, bool left_is_there = false) {
#pragma unroll 1
    for (int column = 0; column < kD; column += kColumns) {
      __syncthreads();  // all are done with the tiles of the product before
      if (kSlices > 1 || !left_is_there) a.template load<kColumns>(left, owned.first, column);
      b.template load<kColumns>(right, first, column);
      __syncthreads();  // both tiles are written
      if (owned.warp_has_rows()) multiply_slice(x);
    }
  }

  /// The place of one of the thread's scores in the weights.
  __device__ float& weight_at(int i, int j) {
    const unsigned column = column_of(j);
    return weights[quad_at<kStep>(row_of(i), column / 4)].values[column % 4];
  }

  /// Writes the thread's weights, for the warp to read.
  __device__ void set_weights(const Scores& x) {
    __syncwarp();  // the warp is done with the weights before
    for_each_score([&](int i, int j) { weight_at(i, j) = x[i][j]; });
    __syncwarp();  // the warp's weights are written
  }

  /// x = value(i, j, x) for each score, through the thread's own places in `weights`: a loop over
  /// registers would be unrolled, and a long `value` would then need too many of them.
  template <class Value>
  __device__ void replace_one_by_one(Scores& x, Value value) {
    set_weights(x);
#pragma unroll 1
    for (int n = 0; n < kRowsEach * kColumnsEach; ++n) {
      const int i = n / kColumnsEach, j = n % kColumnsEach;
      weight_at(i, j) = value(i, j, weight_at(i, j));
    }
    for_each_score([&](int i, int j) { x[i][j] = weight_at(i, j); });
  }

  /// sums += weights times rows of `b` from `first` on. right_is_there: the previous product had
  /// the same rows. kQuads: how many weight quads fit in registers at once. All threads take part.
  template <int kQuads, class T>
  __device__ void add(Sums& sums, const OwnedRows& owned, const TileHead<T>& b, std::int64_t first,
                      bool right_is_there = false) {
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      if (kSlices > 1 || !right_is_there) {
        __syncthreads();  // all are done with the tile before
        b.template load<kColumns>(right, first, slice * kColumns);
        __syncthreads();  // the tile is written
      }
      if (owned.warp_has_rows()) add_slice<kQuads>(sums[slice]);
    }
  }

 private:
  __device__ void multiply_slice(Scores& x) const {
#pragma unroll kAtOnce
    for (unsigned quad = 0; quad < kColumns / 4; ++quad) {
      Quad columns[kColumnsEach];
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j)
        columns[j] = right[quad_at<kColumns>(column_of(j), quad)];
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const Quad row = left[quad_at<kColumns>(row_of(i), quad)];
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int j = 0; j < kColumnsEach; ++j) x[i][j] += row.values[e] * columns[j].values[e];
      }
    }
  }

  template <int kQuads>
  __device__ void add_slice(float (&sums)[kRowsEach][kWidth]) const {
    const unsigned first = threadIdx.x % kLanes * kWidth;
#pragma unroll kQuads
    for (unsigned quad = 0; quad < kStep / 4; ++quad) {
      Pack<float, kWidth> rows[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float* from = &right[quad_at<kColumns>(4 * quad + e, first / 4)].values[first % 4];
        rows[e] = *reinterpret_cast<const Pack<float, kWidth>*>(from);
      }
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const Quad weight = weights[quad_at<kStep>(row_of(i), quad)];
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int c = 0; c < kWidth; ++c) sums[i][c] += weight.values[e] * rows[e].values[c];
      }
    }
  }
};

/// Owned rows of x = factor(i) * sums.
template <int kD, class T, class Factor>
__device__ void write_rows(const typename Tiles<kD>::Sums& sums, Factor factor, const Heads<T>& x,
                           const OwnedRows& owned, std::int64_t columns) {
  constexpr int kWidth = Tiles<kD>::kWidth, kColumns = Tiles<kD>::kColumns;
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const std::int64_t row = owned.first + row_of(i);
    if (row > owned.last) continue;
    T* to = x.find(owned.b, owned.h, row);
#pragma unroll
    for (int d = 0; d < kD / kLanes; ++d) {
      const std::int64_t c = d / kWidth * kColumns + threadIdx.x % kLanes * kWidth + d % kWidth;
      if (c < columns) to[c * x.column] = T(sums[d / kWidth][i][d % kWidth] * factor(i));
    }
  }
}

}  // namespace ringrad::kernels::cuda
