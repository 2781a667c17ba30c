// The kernels of all reductions on a GPU; reduce_plan_cuda.cuh launches them. Private to kernels/.
//
// Elements are merged in packs of V neighbours: at most 64 as a tree in a narrow type, Partial. The
// partial results are merged in a wide type, Total. The plan alone decides which elements merge in
// which order: where packs are not aligned, elements are loaded one by one and merged in the same
// order. There are two kernels:
//
//     reduce_rows       reduces a run of neighbours: by one lane for a short row, by a block or
//                       several blocks for a long one
//     reduce_columns    keeps neighbours: one thread per V columns, so that neighbouring threads
//                       still read neighbouring packs
//
// A kernel reduces one axis. If more axes are reduced, or several blocks share a result, the kernel
// writes totals (parts, results), and another pass reduces their columns.
//
// reduce_pass.cuh says what an operation, a pass and a finish are; README.md shows the two kernels.

#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/reduce/reduce.cuh"
#include "ringrad/kernels/reduce/reduce_pass.cuh"

namespace ringrad::kernels::cuda {

inline constexpr int kReduceThreads = 256;
inline constexpr int kGroup = 4;  // packs that a thread loads before it uses the first

// -- Within a thread ------------------------------------------------------------------------------

template <int V>
constexpr std::int64_t num_packs(std::int64_t elements) {
  return (elements + V - 1) / V;
}

__device__ inline std::int64_t kept_offset(const ReducePass& pass, std::int64_t kept) {
  return pass.kept.element_offsets(static_cast<std::uint64_t>(kept))[0];
}

/// Start of the part of [0, n) that the blocks in row `share` of the grid merge.
__device__ inline std::int64_t share_begin(std::int64_t n, unsigned share) {
  return gridDim.y == 1 ? n * share : n * share / gridDim.y;
}

/// Loads V neighbours, of which `count` exist; the others become zero. kPacked: all exist, and are
/// aligned.
template <bool kPacked, int V, class T>
__device__ Pack<T, V> load_pack(const T* x, int count) {
  if constexpr (kPacked) {
    return *reinterpret_cast<const Pack<T, V>*>(x);
  } else {
    Pack<T, V> pack{};
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (k < count) pack.values[k] = x[k];
    return pack;
  }
}

/// Merges N values, a power of two, as a tree.
template <class Op, int N>
__device__ typename Op::Partial merge_tree(typename Op::Partial (&values)[N]) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int k = 0; k < half; ++k) values[k] = Op::merge(values[k], values[k + half]);
  return values[0];
}

template <int V, class Op>
__device__ typename Op::Partial merge_pack(const Op& op, const Pack<typename Op::Element, V>& pack,
                                           std::int64_t position, typename Op::Center center) {
  typename Op::Partial values[V];
#pragma unroll
  for (int k = 0; k < V; ++k) values[k] = op.map(pack.values[k], position + k, center);
  return merge_tree<Op>(values);
}

/// Merges packs first, first + step, ... before `end` of the row at x; the row's last pack may be
/// smaller.
template <bool kPacked, class Op>
__device__ typename Op::Total merge_row(const Op& op, const typename Op::Element* x,
                                        std::int64_t length, typename Op::Center center,
                                        std::int64_t first, std::int64_t end, std::int64_t step) {
  constexpr int V = kPackSize<Op>;
  using Total = typename Op::Total;
  const std::int64_t whole = std::min(end, length / V);
  Total total = Op::kStart;
  std::int64_t i = first;
  for (; i + (kGroup - 1) * step < whole; i += kGroup * step) {
    Pack<typename Op::Element, V> loaded[kGroup];
    typename Op::Partial partial[kGroup];
#pragma unroll
    for (int g = 0; g < kGroup; ++g) loaded[g] = load_pack<kPacked, V>(x + (i + g * step) * V, V);
#pragma unroll
    for (int g = 0; g < kGroup; ++g)
      partial[g] = merge_pack<V>(op, loaded[g], (i + g * step) * V, center);
    total = Op::merge(total, static_cast<Total>(merge_tree<Op>(partial)));
  }
  for (; i < whole; i += step) {
    const auto loaded = load_pack<kPacked, V>(x + i * V, V);
    total = Op::merge(total, static_cast<Total>(merge_pack<V>(op, loaded, i * V, center)));
  }
  if (i < end)
    for (std::int64_t k = i * V; k < length; ++k)
      total = Op::merge(total, static_cast<Total>(op.map(x[k], k, center)));
  return total;
}

// -- Kernels --------------------------------------------------------------------------------------

// Threads [result << log_lanes, (result + 1) << log_lanes) of block row `share` merge that share of
// a result, and the first of them writes it, to totals (shares, results) if that is not null.
// Shared memory: 8 totals. Bound: bandwidth.
// REQUIRES: log_lanes <= 5, or 8 with blocks of 256 threads; stride 1 and width 1
template <class Op, bool kPacked, class Finish>
__global__ void reduce_rows(Op op, ReducePass pass, const typename Op::Element* x, Finish finish,
                            typename Op::Total* totals, unsigned log_lanes) {
  using Total = typename Op::Total;
  RINGRAD_SHARED(Total, shared, [kReduceThreads / kWarp]);
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t result = thread >> log_lanes;
  const int lanes = 1 << log_lanes;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const std::int64_t packs = num_packs<kPackSize<Op>>(pass.length);
  const std::int64_t begin = share_begin(packs, blockIdx.y);
  const std::int64_t end = share_begin(packs, blockIdx.y + 1);

  Total total = Op::kStart;
  if (result < pass.num_results)
    total = merge_row<kPacked>(op, x + kept_offset(pass, result), pass.length, op.center(result),
                               begin + lane, end, lanes);
  const auto merge = [](Total a, Total b) { return Op::merge(a, b); };
  if (lanes == kReduceThreads)
    total = block_reduce<kReduceThreads>(total, merge, shared);
  else
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      total = merge(total, shuffle_xor(total, distance));

  if (lane > 0 || result >= pass.num_results) return;
  if (totals)
    totals[blockIdx.y * pass.num_results + result] = total;
  else
    finish.out[result] = finish(total);
}

// Thread (x, y) of block (tile, share) merges rows y, y + blockDim.y, ... of its share, for V
// columns: pack x of the tile, where packs are numbered through all kept positions. The threads
// with y = 0 write. Shared memory: at most 64 bytes per thread. Bound: bandwidth.
template <class Op, bool kPacked, class Finish>
__global__ void reduce_columns(Op op, ReducePass pass, const typename Op::Element* x, Finish finish,
                               typename Op::Total* totals) {
  constexpr int V = kPackSize<Op>;
  using Total = typename Op::Total;
  RINGRAD_SHARED(Total, shared, [V][kReduceThreads]);
  const std::int64_t packs = num_packs<V>(pass.width);
  const std::int64_t pack = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t kept = pack / packs, column = pack % packs * V;
  const std::int64_t result = kept * pass.width + column;
  const bool outside = result >= pass.num_results;
  const int columns =
      outside ? 0 : static_cast<int>(std::min<std::int64_t>(V, pass.width - column));
  if (!outside) x += kept_offset(pass, kept) + column;

  typename Op::Center center[V] = {};
  Total total[V];
#pragma unroll
  for (int k = 0; k < V; ++k) {
    if (k < columns) center[k] = op.center(result + k);
    total[k] = Op::kStart;
  }
  const std::int64_t step = blockDim.y;
  const std::int64_t end = outside ? 0 : share_begin(pass.length, blockIdx.y + 1);
  std::int64_t row = share_begin(pass.length, blockIdx.y) + threadIdx.y;
  for (; row + (kGroup - 1) * step < end; row += kGroup * step) {
    Pack<typename Op::Element, V> loaded[kGroup];
#pragma unroll
    for (int g = 0; g < kGroup; ++g)
      loaded[g] = load_pack<kPacked, V>(x + (row + g * step) * pass.stride, columns);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      typename Op::Partial partial[kGroup];
#pragma unroll
      for (int g = 0; g < kGroup; ++g)
        partial[g] = op.map(loaded[g].values[k], row + g * step, center[k]);
      total[k] = Op::merge(total[k], static_cast<Total>(merge_tree<Op>(partial)));
    }
  }
  for (; row < end; row += step) {
    const auto loaded = load_pack<kPacked, V>(x + row * pass.stride, columns);
#pragma unroll
    for (int k = 0; k < V; ++k)
      total[k] = Op::merge(total[k], static_cast<Total>(op.map(loaded.values[k], row, center[k])));
  }

  // The upper half of the threads of a column passes its totals to the lower half, and so on. Each
  // thread writes to its own place, once, so one barrier per step is enough.
  const unsigned place = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned rows = blockDim.y; rows > 1;) {
    const unsigned half = (rows + 1) / 2;
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (threadIdx.y >= half && threadIdx.y < rows) shared[k][place] = total[k];
    __syncthreads();  // the upper half's totals are written
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (threadIdx.y + half < rows)
        total[k] = Op::merge(total[k], shared[k][place + half * blockDim.x]);
    rows = half;
  }

  if (threadIdx.y > 0 || outside) return;
  if (totals) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (k < columns) totals[blockIdx.y * pass.num_results + result + k] = total[k];
    return;
  }
  Pack<std::remove_pointer_t<decltype(finish.out)>, V> results;
#pragma unroll
  for (int k = 0; k < V; ++k) results.values[k] = finish(total[k]);
  if constexpr (kPacked) {
    *reinterpret_cast<decltype(results)*>(finish.out + result) = results;
  } else {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (k < columns) finish.out[result + k] = results.values[k];
  }
}

}  // namespace ringrad::kernels::cuda
