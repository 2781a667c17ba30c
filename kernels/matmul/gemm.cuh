// gemm(): a batch of matrix products on a GPU, with operands as gemm_tile.cuh describes them.
// Private to kernels/*_cuda.cu.
//
// Three kernels, each removing a limit of the previous one:
//
//     gemm_registers, 64 x 64      any floats and strides; sums in registers, factors in
//                                  shared memory
//     gemm_registers, 128 x 128    half the traffic per multiplication; for float32 products with
//                                  enough tiles to give every multiprocessor work
//     gemm_mma, 128 x 128          16-bit floats on tensor cores, if 8 neighbours can be read at
//                                  once
//
// A product with few tiles and a long sum, such as a weight gradient, is also cut along k. Each
// slice becomes a separate product, and a second kernel adds the slices in order. All choices
// depend only on shapes and strides, so the same product gives the same bits in every run, on every
// GPU.

#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/matmul/gemm_mma.cuh"
#include "ringrad/kernels/matmul/gemm_registers.cuh"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {

inline constexpr std::int64_t kMostGemmExtent = std::numeric_limits<std::int32_t>::max();

/// How many neighbours may be accessed at once: 8, 4, 2 or 1. `run` elements lie side by side at
/// `data` and at multiples of `step` from there, for operand number `operand` of the batch.
inline int pack_of(const void* data, std::size_t element_bytes, std::int64_t run, std::int64_t step,
                   const LoopNest<4>& batch, unsigned operand) {
  for (const unsigned pack : {8u, 4u, 2u}) {
    bool fits = run % pack == 0 && step % pack == 0 &&
                reinterpret_cast<std::uintptr_t>(data) % (pack * element_bytes) == 0;
    for (unsigned axis = 0; axis < static_cast<unsigned>(batch.axes); ++axis)
      fits &= batch.strides[axis][operand] % pack == 0;
    if (fits) return static_cast<int>(pack);
  }
  return 1;
}

/// A matrix with rows i and columns k; or the transpose of one with columns i.
struct MatrixLayout {
  std::int64_t extent, K;
  std::int64_t i_stride, k_stride;
};

/// Operand number `operand` of a batch.
template <class T, bool kAlongK>
MatrixOperand<T, kAlongK> matrix_operand(const T* data, const MatrixLayout& m,
                                         const LoopNest<4>& batch, unsigned operand) {
  const auto inner = kAlongK ? m.k_stride : m.i_stride, outer = kAlongK ? m.i_stride : m.k_stride;
  const auto run = kAlongK ? m.K : m.extent, num_runs = kAlongK ? m.extent : m.K;
  const auto narrow = [](std::int64_t n) { return static_cast<unsigned>(n); };
  return {.data = data,
          .extent = narrow(m.extent),
          .K = narrow(m.K),
          .i_stride = narrow(m.i_stride),
          .k_stride = narrow(m.k_stride),
          .pack = inner == 1
                      ? pack_of(data, sizeof(T), run, num_runs == 1 ? 0 : outer, batch, operand)
                      : 1};
}

template <int kRows, int kColumns, int kPack>
struct RegisterTiles {
  static constexpr int kTileRows = kRows, kTileColumns = kColumns;
  static constexpr unsigned kThreads = kRows * kColumns / 64;
  static constexpr std::int64_t kEnoughBlocks = 132 * 512 / kThreads;  // 16 warps per SM of an H100
  template <class A, class B, class Out>
  static constexpr auto kKernel = gemm_registers<kRows, kColumns, kPack, A, B, Out>;
};

struct MmaTiles {
  static constexpr int kTileRows = kMmaTile, kTileColumns = kMmaTile;
  static constexpr unsigned kThreads = kMmaThreads;
  static constexpr std::int64_t kEnoughBlocks = 132 * 2;  // all that fit on an H100
  template <class A, class B, class Out>
  static constexpr auto kKernel = gemm_mma<A, B, Out>;
};

template <class Tiles>
std::int64_t num_tiles(const GemmShape& shape) {
  return ceil_div<std::int64_t>(shape.M, Tiles::kTileRows) *
         ceil_div<std::int64_t>(shape.N, Tiles::kTileColumns);
}

// One element of out per thread. Bound: bandwidth.
template <class T>
__global__ void gemm_sum_slices(GemmShape shape, const MathType<T>* parts, GemmOutput<T> out) {
  using Math = MathType<T>;
  const std::int64_t product_size = std::int64_t{shape.M} * shape.N;
  const std::int64_t size = product_size * shape.num_products;
  for (const std::int64_t i : own_elements(size)) {
    Math sum = 0;
    for (unsigned slice = 0; slice < shape.num_slices; ++slice) sum += parts[slice * size + i];
    const auto offsets = shape.batch.element_offsets(static_cast<unsigned>(i / product_size));
    const std::int64_t m = i % product_size / shape.N, n = i % shape.N;
    const Math bias = out.bias ? Math(out.bias[offsets[3] + n]) : Math{0};
    out.data[offsets[0] + m * out.row + n] = out.finish(sum, bias);
  }
}

template <class Tiles, class T, class A, class B>
void run_gemm(const char* name, Device device, GemmShape shape, const A& a, const B& b,
              const GemmOutput<T>& out, Where where) {
  constexpr unsigned kMostProducts = 65535;                   // per launch, along z
  constexpr std::int64_t kLeastSlice = 256, kSliceUnit = 32;  // a multiple of any step
  const std::int64_t tiles = num_tiles<Tiles>(shape);
  const std::int64_t wanted =
      std::min(Tiles::kEnoughBlocks / (tiles * shape.num_products), shape.K / kLeastSlice);
  shape.slice = shape.K;
  if (wanted > 1) {
    const auto slice = ceil_div(ceil_div<std::int64_t>(shape.K, wanted), kSliceUnit) * kSliceUnit;
    shape.slice = static_cast<unsigned>(slice);
    shape.num_slices = ceil_div(shape.K, shape.slice);
  }

  const auto run = [&](auto kernel, const auto& to) {
    for (; shape.first_product < shape.num_products; shape.first_product += kMostProducts) {
      const unsigned products = std::min(shape.num_products - shape.first_product, kMostProducts);
      const double m = shape.M, n = shape.N, k = shape.K;
      launch_on(device,
                {.name = name,
                 .grid = {static_cast<unsigned>(tiles), shape.num_slices, products},
                 .block = Tiles::kThreads,
                 .flops = 2 * products * m * n * k,
                 .bytes = products * (m * n + m * k + n * k) * sizeof(T)},
                where, kernel, shape, a, b, to);
    }
  };
  if (shape.num_slices == 1) return run(Tiles::template kKernel<A, B, T>, out);

  using Math = MathType<T>;
  const std::int64_t size = std::int64_t{shape.M} * shape.N * shape.num_products;
  const Tensor parts =
      empty({shape.num_slices, size}, {.dtype = dtype_of<Math>, .device = device}, where);
  run(Tiles::template kKernel<A, B, Math>,
      GemmOutput<Math>{
          .data = parts.device_data<Math>(), .row = shape.N, .pack = shape.N % 4 == 0 ? 4 : 1});
  launch_on(device, thread_per_element("gemm_sum_slices", size), where, gemm_sum_slices<T>, shape,
            parts.device_data<Math>(), out);
}

/// out[m, n] = sum over k of a(m, k) * b(n, k), plus the epilogue, for each product of the batch.
///
/// REQUIRES: no extent but K is 0; all extents, and strides within a matrix, are at most
///           kMostGemmExtent
template <class T, class A, class B>
void gemm(const char* name, Device device, const GemmShape& shape, const A& a, const B& b,
          const GemmOutput<T>& out, Where where) {
  const int pack = std::min(a.pack, b.pack);
  if constexpr (sizeof(T) == 2) {
    if (pack >= 8) return run_gemm<MmaTiles>(name, device, shape, a, b, out, where);
  }
  if constexpr (std::is_same_v<T, float>) {
    using Large = RegisterTiles<128, 128, 4>;
    if (pack >= 4 && num_tiles<Large>(shape) * shape.num_products >= Large::kEnoughBlocks / 2)
      return run_gemm<Large>(name, device, shape, a, b, out, where);
    if (pack >= 4) return run_gemm<RegisterTiles<64, 64, 4>>(name, device, shape, a, b, out, where);
  }
  run_gemm<RegisterTiles<64, 64, 1>>(name, device, shape, a, b, out, where);
}

}  // namespace ringrad::kernels::cuda
