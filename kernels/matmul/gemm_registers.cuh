// A tile of a matrix product in registers: every multiplication takes its factors from registers,
// with 64 multiplications per 16 elements read from shared memory. Private to kernels/*_cuda.cu.
//
// kRows / 32 x kColumns / 64 warps share a tile of kRows x kColumns. The lanes of a warp share its
// 32 x 64 as below: each lane has 8 x 8, in four blocks of 4 x 4:
//
//              4   4        32               4 consecutive elements are one load; the lanes in a
//           +---+---+-...-+---+---+-...-+    row of lanes read neighbouring ones, without bank
//         4 | 0 | 1 |     | 0 | 1 |     |    conflicts
//           +---+---+-...-+---+---+-...-+
//         4 | 8 | 9 |     | 8 | 9 |     |
//           :                           :
//        16 | 0 | 1 |     | 0 | 1 |     |

#pragma once

#include "ringrad/kernels/matmul/gemm_tile.cuh"

namespace ringrad::kernels::cuda {

/// Number of terms k whose factors are in shared memory at one time.
template <class T>
inline constexpr int kStep = sizeof(T) > 4 ? 4 : 8;

template <class T>
using Quad = Pack<T, 4>;

/// The factors of kRows rows for one step, by k, four rows together. The last column is padding:
/// threads that each write one row, for several k, then use different banks.
template <class T, int kRows>
using FactorTile = Quad<T>[kStep<T>][kRows / 4 + 1];

/// One thread's share of an operand's factors on their way to shared memory: packs of kPack
/// neighbours.
template <int kRows, int kThreads, int kPack, class Operand>
class FactorLoader {
  using T = typename Operand::Element;
  static constexpr unsigned kDepth = kStep<MathType<T>>;
  static constexpr unsigned kPacks = kRows * kDepth / kPack / kThreads;

 public:
  /// Loads rows from i0 on, for terms from k0 on.
  __device__ void load(const Operand& x, unsigned i0, unsigned k0) {
#pragma unroll
    for (unsigned p = 0; p < kPacks; ++p) {
      const auto [i, k] = place(p);
      const T* from = x.find(i0 + i, k0 + k);
      packs_[p] = from ? *reinterpret_cast<const Pack<T, kPack>*>(from) : Pack<T, kPack>{};
    }
  }

  __device__ void store(FactorTile<MathType<T>, kRows>& tile) const {
#pragma unroll
    for (unsigned p = 0; p < kPacks; ++p) {
      const auto [i, k] = place(p);
#pragma unroll
      for (unsigned j = 0; j < kPack; ++j) {
        const auto value = static_cast<MathType<T>>(packs_[p].values[j]);
        if constexpr (Operand::kAlongK)
          tile[k + j][i / 4].values[i % 4] = value;
        else
          tile[k][(i + j) / 4].values[(i + j) % 4] = value;
      }
    }
  }

 private:
  struct TilePosition {
    unsigned i, k;
  };

  // Neighbouring threads have neighbouring packs of memory.
  __device__ static TilePosition place(unsigned p) {
    const unsigned pack = threadIdx.x + p * kThreads;
    if constexpr (Operand::kAlongK)
      return {pack / (kDepth / kPack), pack % (kDepth / kPack) * kPack};
    return {pack % (kRows / kPack) * kPack, pack / (kRows / kPack)};
  }

  Pack<T, kPack> packs_[kPacks];
};

/// sums[i][j] += x[i] * y[j]
template <class Math>
__device__ void add_products(Math (&sums)[8][8], const Quad<Math> (&x)[2],
                             const Quad<Math> (&y)[2]) {
#pragma unroll
  for (unsigned i = 0; i < 8; ++i)
#pragma unroll
    for (unsigned j = 0; j < 8; ++j) sums[i][j] += x[i / 4].values[i % 4] * y[j / 4].values[j % 4];
}

/// Writes a lane's sums, the first of which belongs to (m, n).
template <class Math, class Out>
__device__ void write_sums(const GemmShape& shape, const GemmOutput<Out>& out, unsigned m,
                           unsigned n, const Math (&sums)[8][8]) {
#pragma unroll
  for (unsigned j = 0; j < 8; j += 4) {
    const unsigned column = n + j / 4 * 32;
    const auto offsets = out.template bias_of<4>(shape, column);
#pragma unroll
    for (unsigned i = 0; i < 8; ++i)
      out.template write<4>(shape, m + i / 4 * 16 + i % 4, column,
                            {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]}, offsets);
  }
}

// One thread per 64 elements of the tile. Shared memory: two tiles of factors per operand, so that
// the next step's factors arrive while the current ones are multiplied;
// 2 * kStep * (kRows + kColumns + 8) numbers. Bound: arithmetic.
// REQUIRES: kPack is 1 or 4; A and B give packs of kPack
template <int kRows, int kColumns, int kPack, class A, class B, class Out>
__global__ void __launch_bounds__(kRows* kColumns / 64, 2)
    gemm_registers(GemmShape shape, A a, B b, GemmOutput<Out> out) {
  using Math = MathType<typename A::Element>;
  constexpr int kThreads = kRows * kColumns / 64;
  using ATile = FactorTile<Math, kRows>;  // RINGRAD_SHARED takes one name
  using BTile = FactorTile<Math, kColumns>;
  RINGRAD_SHARED(ATile, a_tiles, [2]);
  RINGRAD_SHARED(BTile, b_tiles, [2]);

  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned row = warp / (kColumns / 64) * 32 + lane / 8 * 4;     // and 16 further down
  const unsigned column = warp % (kColumns / 64) * 64 + lane % 8 * 4;  // and 32 further right
  const GemmTile tile = this_tile<kRows, kColumns>(shape);
  move_to_product(shape, a, b);
  FactorLoader<kRows, kThreads, kPack, A> a_loader;
  FactorLoader<kColumns, kThreads, kPack, B> b_loader;
  const auto load = [&](unsigned k) {
    a_loader.load(a, tile.m0, k);
    b_loader.load(b, tile.n0, k);
  };
  const auto store = [&](unsigned buffer) {
    a_loader.store(a_tiles[buffer]);
    b_loader.store(b_tiles[buffer]);
  };

  Math sums[8][8] = {};
  load(tile.k_begin);
  store(0);
  __syncthreads();  // the first step's factors are stored
  unsigned buffer = 0;
  for (unsigned k = tile.k_begin; k < tile.k_end; k += kStep<Math>, buffer ^= 1) {
    const bool more = k + kStep<Math> < tile.k_end;
    if (more) load(k + kStep<Math>);
#pragma unroll
    for (unsigned step = 0; step < kStep<Math>; ++step) {
      const Quad<Math>*x = &a_tiles[buffer][step][row / 4], *y = &b_tiles[buffer][step][column / 4];
      add_products(sums, {x[0], x[4]}, {y[0], y[8]});
    }
    if (more) store(buffer ^ 1);
    __syncthreads();  // the next step's factors are stored, and all are done with this step's
  }
  move_to_product(shape, out);
  write_sums(shape, out, tile.m0 + row, tile.n0 + column, sums);
}

}  // namespace ringrad::kernels::cuda
