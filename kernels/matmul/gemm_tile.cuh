// The common parts of a GPU's tiled matrix products: where the operands' elements come from, which
// block computes which tile, and where the sums go. Private to kernels/*_cuda.cu; gemm.cuh
// launches.
//
//     out[m, n] = sum over k of a(m, k) * b(n, k)            so b's rows are out's columns
//
//                   n0
//            +------+---+---+       +-----+-----+-----+      a block of threads computes one tile
//         m0 |      |   |   |  from |     |  a  |     | m0   of out, in one slice of k
//            +------+---+---+       +-----+-----+-----+
//                                     k_begin  k_end
//
// An operand is any type that can locate element (i, k), with the members below. So a convolution
// is also a product, of virtual matrices that are never stored.
//
//     Element, data                the element type; the pointer that a batch moves
//     kAlongK                      if true, neighbours in memory have neighbouring k; else i
//     pack                         number of neighbours, from a multiple of it on, readable at once
//     const Element* find(i, k)    null for an element that is 0: padding, or outside the matrix
//
// Numbers of rows and columns, and strides in elements, are below 2^31 here, so that computing an
// address takes one instruction. Offsets of whole matrices have 64 bits.

#pragma once

#include <cstdint>

#include "ringrad/core/dtype.h"
#include "ringrad/core/gpu/cuda.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/loop_nest.h"

namespace ringrad::kernels::cuda {

/// A matrix in memory, with any strides.
template <class T, bool along_k>
struct MatrixOperand {
  using Element = T;
  static constexpr bool kAlongK = along_k;

  const T* data;
  unsigned extent, K;
  unsigned i_stride, k_stride;
  int pack;

  __device__ const T* find(unsigned i, unsigned k) const {
    if (i >= extent || k >= K) return nullptr;
    return data + std::uint64_t{i} * i_stride + std::uint64_t{k} * k_stride;
  }
};

/// An operand with its two axes exchanged.
template <class Operand>
struct TransposedOperand : Operand {
  static constexpr bool kAlongK = !Operand::kAlongK;

  __device__ auto find(unsigned i, unsigned k) const { return Operand::find(k, i); }
};

/// A batch of products; one launch computes those from `first_product` on.
struct GemmShape {
  unsigned M, N, K;
  LoopNest<4> batch;  // where each product's out, a, b and bias begin
  unsigned num_products = 1, first_product = 0;
  unsigned slice = 0, num_slices = 1;  // k is summed in slices of `slice` terms
};

/// The destination of the sums. With several slices: data (num_slices, num_products, M, N), no
/// bias.
template <class T>
struct GemmOutput {
  using Math = MathType<T>;

  T* data;
  unsigned row;  // distance between rows
  const T* bias = nullptr;
  bool relu = false;
  int pack = 1;  // number of neighbours that may be written at once

  __device__ T finish(Math sum, Math offset) const {
    sum += offset;
    return T(relu && sum < 0 ? Math{0} : sum);
  }

  /// The bias of columns from n on; 0 beyond the last column.
  template <int kWidth>
  __device__ Pack<Math, kWidth> bias_of(const GemmShape& shape, unsigned n) const {
    Pack<Math, kWidth> values{};
    if (bias) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
        if (n + j < shape.N) values.values[j] = static_cast<Math>(bias[n + j]);
    }
    return values;
  }

  /// Writes kWidth sums of row m, for columns from n on, except those beyond the last column.
  template <int kWidth>
  __device__ void write(const GemmShape& shape, unsigned m, unsigned n, const Math (&sums)[kWidth],
                        const Pack<Math, kWidth>& offsets) const {
    if (m >= shape.M || n >= shape.N) return;
    T* to = data + std::uint64_t{m} * row + n;
    Pack<T, kWidth> values;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values.values[j] = finish(sums[j], offsets.values[j]);
    if (pack >= kWidth) {
      *reinterpret_cast<Pack<T, kWidth>*>(to) = values;
    } else {
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
        if (n + j < shape.N) to[j] = values.values[j];
    }
  }
};

/// A tile's position in one product.
struct GemmTile {
  unsigned m0, n0, k_begin, k_end;
};

/// n / size, rounded up.
template <class Number>
constexpr Number ceil_div(Number n, Number size) {
  return n / size + (n % size != 0);
}

/// This block's tile. Blocks run roughly in the order of their numbers. So that blocks that run
/// together share rows and columns, the order goes down 8 tiles before it moves on to the right.
template <unsigned kRows, unsigned kColumns>
__device__ GemmTile this_tile(const GemmShape& shape) {
  constexpr unsigned kBand = 8;
  const unsigned columns = ceil_div(shape.N, kColumns);
  const unsigned band = blockIdx.x / (kBand * columns), in_band = blockIdx.x % (kBand * columns);
  const unsigned first = band * kBand;
  const unsigned height = min(kBand, ceil_div(shape.M, kRows) - first);
  const unsigned k_begin = blockIdx.y * shape.slice;
  return {(first + in_band % height) * kRows, in_band / height * kColumns, k_begin,
          min(k_begin + shape.slice, shape.K)};
}

/// This block's product within the batch.
__device__ inline unsigned this_product(const GemmShape& shape) {
  return shape.first_product + blockIdx.z;
}

/// Moves the operands to this block's product.
template <class A, class B>
__device__ void move_to_product(const GemmShape& shape, A& a, B& b) {
  const auto offsets = shape.batch.element_offsets(this_product(shape));
  a.data += offsets[1];
  b.data += offsets[2];
}

/// Moves the output to this block's product and slice. Called after the sum, because registers are
/// scarce while summing.
template <class T>
__device__ void move_to_product(const GemmShape& shape, GemmOutput<T>& out) {
  const unsigned product = this_product(shape);
  if (shape.num_slices == 1) {
    const auto offsets = shape.batch.element_offsets(product);
    out.data += offsets[0];
    if (out.bias) out.bias += offsets[3];
  } else {
    const std::uint64_t part = std::uint64_t{blockIdx.y} * shape.num_products + product;
    out.data += part * shape.M * shape.N;
  }
}

}  // namespace ringrad::kernels::cuda
