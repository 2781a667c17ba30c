// Copies on a GPU, as a ladder:
//
//     convert_strided        one element per thread: any strides, any pair of dtypes
//     convert_packs          16 bytes per thread, where both sides have rows of neighbours: equal
//                            dtypes, or two of float32, float16 and bfloat16
//     transpose_tiles        tiles of 32 x 32 through shared memory, so that both sides access
//                            whole lines
//     cudaMemcpyAsync        equal layouts: the copy engine

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/core/gpu/pack.h"
#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/convert.h"
#include "ringrad/kernels/copy/copy_cuda.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

using ringrad::cuda::Pack;

constexpr int kTile = 32, kTileRows = 8;

// Bound: bandwidth, to the degree that the strides allow. `to` is the same for all threads.
template <class From, class Index>
__global__ void convert_strided(LoopNest<2> nest, std::int64_t n, void* dst, DType to,
                                const From* src) {
  for (const std::int64_t i : own_elements(n)) {
    const auto offsets = nest.element_offsets(static_cast<Index>(i));
    const From value = src[offsets[1]];
    dispatch_dtype(to, [&]<class To>() { static_cast<To*>(dst)[offsets[0]] = convert<To>(value); });
  }
}

// One pack of V neighbours per thread; the nest counts packs. Bound: bandwidth.
// REQUIRES: each pack of dst and src is aligned to its size
template <class To, class From, int V>
__global__ void convert_packs(LoopNest<2> nest, std::int64_t n, To* dst, const From* src) {
  for (const std::int64_t i : own_elements(n)) {
    const auto offsets = nest.element_offsets(static_cast<std::uint32_t>(i));
    const auto from = *reinterpret_cast<const Pack<From, V>*>(src + offsets[1]);
    Pack<To, V> to;
#pragma unroll
    for (int k = 0; k < V; ++k) to.values[k] = convert<To>(from.values[k]);
    *reinterpret_cast<Pack<To, V>*>(dst + offsets[0]) = to;
  }
}

// Rows and columns of one matrix of a batch: dst's columns are neighbours, src's rows are
// neighbours.
struct Matrices {
  std::int64_t rows, columns;
  std::int64_t dst_row;     // distance between rows in dst
  std::int64_t src_column;  // distance between columns in src
  LoopNest<2> batch;
};

// A block of 32 x 8 threads moves one tile; blockIdx.z is the matrix. Shared memory: 32 * 33 *
// sizeof(T) bytes; the odd column keeps a column's elements in different banks. Bound: bandwidth.
template <class T>
__global__ void transpose_tiles(Matrices m, T* dst, const T* src) {
  RINGRAD_SHARED(T, tile, [kTile][kTile + 1]);
  const auto batch = m.batch.element_offsets(static_cast<std::uint32_t>(blockIdx.z));
  dst += batch[0];
  src += batch[1];
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile;
  const std::int64_t column0 = std::int64_t{blockIdx.x} * kTile;
  for (unsigned j = threadIdx.y; j < kTile; j += kTileRows) {
    const std::int64_t row = row0 + threadIdx.x, column = column0 + j;
    if (row < m.rows && column < m.columns) tile[j][threadIdx.x] = src[row + column * m.src_column];
  }
  __syncthreads();  // the tile is complete
  for (unsigned j = threadIdx.y; j < kTile; j += kTileRows) {
    const std::int64_t row = row0 + j, column = column0 + threadIdx.x;
    if (row < m.rows && column < m.columns) dst[row * m.dst_row + column] = tile[threadIdx.x][j];
  }
}

std::int64_t num_elements(const LoopNest<2>& nest) { return nest.num_rows() * nest.row_extent(); }

bool is_linear(const LoopNest<2>& nest) {
  return nest.axes == 0 || (nest.axes == 1 && nest.row_strides() == LoopNest<2>::Offsets{1, 1});
}

// Describes the nest as matrices to transpose, if possible: their axes are dst's innermost and the
// one along which src is contiguous.
bool as_matrices(const LoopNest<2>& nest, Matrices& m) {
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid along y and z
  if (nest.axes < 2 || nest.row_strides()[0] != 1 || nest.row_strides()[1] == 0) return false;
  m.batch = {};
  bool found = false;
  for (unsigned i = 0; i + 1 < static_cast<unsigned>(nest.axes); ++i) {
    if (!found && nest.strides[i][1] == 1) {
      found = true;
      m.rows = nest.extents[i];
      m.dst_row = nest.strides[i][0];
    } else {
      const auto at = static_cast<unsigned>(m.batch.axes++);
      m.batch.extents[at] = nest.extents[i];
      m.batch.strides[at] = nest.strides[i];
    }
  }
  m.columns = nest.row_extent();
  m.src_column = nest.row_strides()[1];
  return found && m.rows >= kTile / 2 && m.columns >= kTile / 2 &&
         num_elements(m.batch) <= kMostBlocks && (m.rows + kTile - 1) / kTile <= kMostBlocks;
}

template <class T>
void transpose(Device device, const Matrices& m, std::byte* dst, const std::byte* src,
               Where where) {
  const auto tiles = [](std::int64_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  launch_on(
      device,
      {.name = "transpose",
       .grid = {tiles(m.columns), tiles(m.rows), static_cast<unsigned>(num_elements(m.batch))},
       .block = {kTile, kTileRows}},
      where, transpose_tiles<T>, m, reinterpret_cast<T*>(dst), reinterpret_cast<const T*>(src));
}

// Turns a nest of elements into one of packs of V, if every pack is whole and aligned.
template <int V>
bool as_packs(LoopNest<2>& nest, const void* dst, std::size_t to_size, const void* src,
              std::size_t from_size) {
  const auto is_aligned = [](const void* data, std::size_t size) {
    return reinterpret_cast<std::uintptr_t>(data) % (V * size) == 0;
  };
  if (nest.axes == 0 || nest.row_strides() != LoopNest<2>::Offsets{1, 1} ||
      nest.row_extent() % V != 0 || !is_aligned(dst, to_size) || !is_aligned(src, from_size))
    return false;
  const auto row = static_cast<unsigned>(nest.axes - 1);
  for (unsigned axis = 0; axis < row; ++axis)
    if (nest.strides[axis][0] % V != 0 || nest.strides[axis][1] % V != 0) return false;
  nest.extents[row] /= V;
  nest.strides[row] = {V, V};
  return num_elements(nest) <= std::numeric_limits<std::int32_t>::max();
}

// Returns false, having done nothing, if the nest does not consist of packs.
template <class To, class From>
bool copy_packs(Device device, LoopNest<2> nest, std::byte* dst, const std::byte* src,
                Where where) {
  constexpr int V = 16 / std::max(sizeof(To), sizeof(From));
  if (!as_packs<V>(nest, dst, sizeof(To), src, sizeof(From))) return false;
  const std::int64_t n = num_elements(nest);
  launch_on(device,
            thread_per_element("copy", n, static_cast<double>(n * V) * (sizeof(To) + sizeof(From))),
            where, convert_packs<To, From, V>, nest, n, reinterpret_cast<To*>(dst),
            reinterpret_cast<const From*>(src));
  return true;
}

bool copy_packs(Device device, const LoopNest<2>& nest, std::byte* dst, DType to,
                const std::byte* src, DType from, Where where) {
  if (to == from)
    return dispatch_size(
        size_bytes(to), [&]<class T>() { return copy_packs<T, T>(device, nest, dst, src, where); });
  const auto is_common = [](DType dtype) {
    return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
  };
  if (!is_common(to) || !is_common(from)) return false;
  return dispatch_floating(to, [&]<class To>() {
    return dispatch_floating(from, [&]<class From>() {
      if constexpr (std::is_same_v<To, From> || std::is_same_v<To, double> ||
                    std::is_same_v<From, double>)
        return false;  // not reached
      else
        return copy_packs<To, From>(device, nest, dst, src, where);
    });
  });
}

}  // namespace

void copy(Device device, const LoopNest<2>& nest, std::byte* dst, DType to, const std::byte* src,
          DType from, Where where) {
  const std::int64_t n = num_elements(nest);
  if (to == from && is_linear(nest))
    return copy_bytes(dst, device, src, device, static_cast<std::size_t>(n) * size_bytes(to),
                      where);
  if (Matrices m{}; to == from && as_matrices(nest, m)) {
    return dispatch_size(size_bytes(to),
                         [&]<class T>() { transpose<T>(device, m, dst, src, where); });
  }
  if (copy_packs(device, nest, dst, to, src, from, where)) return;
  const LaunchConfig config = thread_per_element("copy", n);
  dispatch_dtype(from, [&]<class From>() {
    const auto* typed = reinterpret_cast<const From*>(src);
    if (n <= std::numeric_limits<std::int32_t>::max())
      launch_on(device, config, where, convert_strided<From, std::uint32_t>, nest, n, dst, to,
                typed);
    else
      launch_on(device, config, where, convert_strided<From, std::uint64_t>, nest, n, dst, to,
                typed);
  });
}

}  // namespace ringrad::kernels::cuda
