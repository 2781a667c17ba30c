// A tile of a matrix product on tensor cores, for 16-bit floats. Private to kernels/*_cuda.cu.
//
// Asynchronous copies move factors from global to shared memory, with three steps of k in flight at
// once. From there they are loaded into registers as fragments, so the instruction stream is mostly
// multiplications.
//
// A step's 128 x 32 factors lie in shared memory in chunks of 8 neighbours, 16 bytes, the unit of
// copies and of fragments. A fragment reads one chunk from each of 8 rows at a time; a copy writes
// 8 chunks of a line of memory. The order of chunks is permuted so that both use 8 different groups
// of banks:
//
//     operand along k:    row i has  4 chunks, and its chunk c is at place c ^ (i / 2 % 4)
//     operand along i:    row k has 16 chunks, and its chunk c is at place c ^ (k % 8)

#pragma once

#include "ringrad/kernels/matmul/async_copy.cuh"
#include "ringrad/kernels/matmul/gemm_tile.cuh"
#include "ringrad/kernels/matmul/mma.cuh"

namespace ringrad::kernels::cuda {

inline constexpr int kMmaTile = 128;  // rows and columns
inline constexpr int kMmaThreads = 128;
inline constexpr int kMmaStep = 32;
inline constexpr int kMmaStages = 3;
inline constexpr int kMmaChunks = kMmaTile * kMmaStep / 8;  // chunks of one operand, for one step

/// The chunk that holds element (i, k) of a step's factors.
template <bool kAlongK>
__device__ unsigned chunk_of(unsigned i, unsigned k) {
  if constexpr (kAlongK) return i * 4 + (k / 8 ^ (i / 2 & 3));
  return k * 16 + (i / 8 ^ (k & 7));
}

/// Starts the copies of rows from i0 on, for terms from k0 on.
template <class Operand>
__device__ void start_copies(AsyncCopies& copies, const Operand& x, unsigned i0, unsigned k0,
                             uint4* tile) {
#pragma unroll
  for (unsigned n = 0; n < kMmaChunks; n += kMmaThreads) {
    const unsigned chunk = threadIdx.x + n;
    const unsigned i = Operand::kAlongK ? chunk / 4 : chunk % 16 * 8;
    const unsigned k = Operand::kAlongK ? chunk % 4 * 8 : chunk / 16;
    copies.start(&tile[chunk_of<Operand::kAlongK>(i, k)], x.find(i0 + i, k0 + k));
  }
}

enum class Factor { left, right };

/// The 16 x 16 block that starts at (i0, k0).
template <Factor kFactor, bool kAlongK>
__device__ Fragment load_block(const uint4* tile, unsigned i0, unsigned k0) {
  const unsigned q = threadIdx.x % 32 / 8, row = threadIdx.x % 8;  // of r[q]
  const unsigned i = i0 + (kFactor == Factor::left ? q % 2 : q / 2) * 8;
  const unsigned k = k0 + (kFactor == Factor::left ? q / 2 : q % 2) * 8;
  if constexpr (kAlongK) return load_fragment<false>(&tile[chunk_of<true>(i + row, k)]);
  return load_fragment<true>(&tile[chunk_of<false>(i, k + row)]);
}

/// A lane's share of 64 x 64 sums: blocks of 16 x 16, in the layout of multiply_add().
using MmaSums = float[4][4][2][4];

/// Adds the products of one step's factors: 64 rows from `row` on and 64 columns from `column` on.
template <class A, class B>
__device__ void add_products(MmaSums& sums, const uint4* a_tile, unsigned row, const uint4* b_tile,
                             unsigned column) {
#pragma unroll
  for (unsigned k = 0; k < kMmaStep; k += 16) {
    Fragment x[4], y[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      x[i] = load_block<Factor::left, A::kAlongK>(a_tile, row + 16 * i, k);
      y[i] = load_block<Factor::right, B::kAlongK>(b_tile, column + 16 * i, k);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) multiply_add<typename A::Element>(sums[i][j], x[i], y[j]);
  }
}

/// Writes a lane's sums, the first of which belongs to (m, n).
template <class Out>
__device__ void write_sums(const GemmShape& shape, const GemmOutput<Out>& out, unsigned m,
                           unsigned n, const MmaSums& sums) {
#pragma unroll
  for (unsigned j = 0; j < 8; ++j) {
    const auto offsets = out.template bias_of<2>(shape, n + 8 * j);
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) {
      const float* pair = &sums[i / 2][j / 2][j % 2][i % 2 * 2];
      out.template write<2>(shape, m + 8 * i, n + 8 * j, {pair[0], pair[1]}, offsets);
    }
  }
}

// Four warps, each with 64 x 64 of the tile: 128 sums per lane. Shared memory: 48 KiB.
// Bound: arithmetic.
// REQUIRES: A and B consist of the same 16-bit floats and give packs of 8
template <class A, class B, class Out>
__global__ void __launch_bounds__(kMmaThreads, 2)
    gemm_mma(GemmShape shape, A a, B b, GemmOutput<Out> out) {
  RINGRAD_SHARED(uint4, a_tiles, [kMmaStages][kMmaChunks]);
  RINGRAD_SHARED(uint4, b_tiles, [kMmaStages][kMmaChunks]);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned row = warp / 2 * 64, column = warp % 2 * 64;
  const GemmTile tile = this_tile<kMmaTile, kMmaTile>(shape);
  const bool has_work = tile.m0 + row < shape.M && tile.n0 + column < shape.N;  // the whole warp
  move_to_product(shape, a, b);
  AsyncCopies copies;
  const auto start = [&](unsigned k, unsigned stage) {
    if (k < tile.k_end) {
      start_copies(copies, a, tile.m0, k, a_tiles[stage]);
      start_copies(copies, b, tile.n0, k, b_tiles[stage]);
    }
    copies.commit();  // also if empty: wait() counts groups
  };

  MmaSums sums = {};
  for (unsigned stage = 0; stage + 1 < kMmaStages; ++stage)
    start(tile.k_begin + stage * kMmaStep, stage);
  unsigned stage = 0;
  for (unsigned k = tile.k_begin; k < tile.k_end; k += kMmaStep) {
    copies.wait<kMmaStages - 2>();
    __syncthreads();  // this stage has arrived, and all are done with the stage before it
    start(k + (kMmaStages - 1) * kMmaStep, (stage + kMmaStages - 1) % kMmaStages);
    if (has_work) add_products<A, B>(sums, a_tiles[stage], row, b_tiles[stage], column);
    stage = (stage + 1) % kMmaStages;
  }
  move_to_product(shape, out);
  write_sums(shape, out, tile.m0 + row + lane / 4, tile.n0 + column + lane % 4 * 2, sums);
}

}  // namespace ringrad::kernels::cuda
