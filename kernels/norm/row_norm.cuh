// The kernels of layer and RMS normalization on a GPU, as a ladder; bound by bandwidth. Private to
// row_norm_cuda.cu.
//
//     row_norm_block_per_row     rows of any length; read up to three times, mostly from the cache
//     row_norm_in_registers      rows that fit into the registers of their threads; read once
//
// kCentred: layer norm. Because of rounding, the computed centre of a row differs from its mean, by
// many deviations if the mean is large. The distances from the centre are exact, and their own
// mean, `shift`, is the missing correction. RMS norm has neither: both are 0.

#pragma once

#include <cmath>
#include <type_traits>

#include "ringrad/kernels/norm/parameter.cuh"
#include "ringrad/kernels/reduce/rows.cuh"

namespace ringrad::kernels::cuda {

inline constexpr int kRowNormThreads = 512;  // of a block that traverses a row

template <class T>
inline constexpr int kPacks = packs_in<T>(128);  // packs that a thread keeps

template <class T>
struct RowNormForward {
  using Math = MathType<T>;
  const T* x;              // (rows, C)
  Parameter weight, bias;  // (C)
  T* y;                    // (rows, C)
  Math *mean, *rstd;       // (rows); mean is null unless centred
  std::int64_t rows, C;
  Math eps;
};

// Computes from a row's distances to its centre: their mean, and 1 / the standard deviation.
template <class Math>
struct RowMoments {
  Math shift, rstd;

  __device__ RowMoments(Pair<Math> distances_and_squares, std::int64_t C, Math eps) {
    const auto n = static_cast<Math>(C);
    shift = distances_and_squares.first / n;
    const Math var = distances_and_squares.second / n - shift * shift;
    rstd = 1 / std::sqrt((var < 0 ? Math{0} : var) + eps);  // equal values can round below 0
  }
  __device__ RowMoments(Math squares, std::int64_t C, Math eps)
      : shift(0), rstd(1 / std::sqrt(squares / static_cast<Math>(C) + eps)) {}
};

// The sums from which a row's variance is computed: of distances and of their squares, or of
// squares alone.
template <class Math, bool kCentred>
using RowSums = std::conditional_t<kCentred, Pair<Math>, Math>;

template <class Math>
__device__ void add_distance(Pair<Math>& sums, Math distance) {
  sums = sums + Pair<Math>{distance, distance * distance};
}
template <class Math>
__device__ void add_distance(Math& squares, Math distance) {
  squares += distance * distance;
}

// y of one pack from its distances to the centre.
template <class T, class Index, class Math>
__device__ void store_normalized(const RowNormForward<T>& args, const Row<T, Index>& row,
                                 Index pack, const RowMoments<Math>& moments,
                                 Math (&distances)[kPack<T>]) {
  Math weight[kPack<T>], bias[kPack<T>];
  load_parameters<T>(args.weight, row.column(pack), static_cast<Index>(args.C), Math{1}, weight);
  load_parameters<T>(args.bias, row.column(pack), static_cast<Index>(args.C), Math{0}, bias);
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i)
    distances[i] = (distances[i] - moments.shift) * moments.rstd * weight[i] + bias[i];
  row.store(args.y, pack, distances);
}

// Block b processes row b, thread t its packs t, t + kRowNormThreads ... Shared memory: three
// numbers per warp.
template <class T, bool kCentred>
__global__ void __launch_bounds__(kRowNormThreads, 2)
    row_norm_block_per_row(RowNormForward<T> args) {
  using Math = MathType<T>;
  using Sums = RowSums<Math, kCentred>;
  RINGRAD_SHARED(Math, shared, [kRowNormThreads / kWarp]);
  RINGRAD_SHARED(Sums, shared_sums, [kRowNormThreads / kWarp]);
  const Row<T> row(blockIdx.x * args.C, args.C);
  // Calls visit(pack, its distances from `centre`); the distances are 0 outside the row.
  const auto for_each_pack = [&](Math centre, auto visit) {
    Math values[kPack<T>];
    for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kRowNormThreads) {
      row.load(args.x, pack, centre, values);
#pragma unroll
      for (Math& value : values) value -= centre;
      visit(pack, values);
    }
  };
  Math centre = 0;
  if constexpr (kCentred) {
    Math sum = 0;
    for_each_pack(0, [&](std::int64_t, const Math(&values)[kPack<T>]) {
      for (const Math value : values) sum += value;
    });
    centre = block_reduce<kRowNormThreads>(sum, Plus(), shared) / static_cast<Math>(args.C);
  }
  Sums sums{};
  for_each_pack(centre, [&](std::int64_t, const Math(&values)[kPack<T>]) {
    for (const Math value : values) add_distance(sums, value);
  });
  const RowMoments<Math> moments(block_reduce<kRowNormThreads>(sums, Plus(), shared_sums), args.C,
                                 args.eps);
  for_each_pack(centre, [&](std::int64_t pack, Math(&values)[kPack<T>]) {
    store_normalized(args, row, pack, moments, values);
  });
  if (threadIdx.x == 0) {
    if constexpr (kCentred) args.mean[blockIdx.x] = centre + moments.shift;
    args.rstd[blockIdx.x] = moments.rstd;
  }
}

// Block b processes rows b * blockDim.y ...; thread (x, y) reads packs x, x + kRowThreads ... of
// row y. Shared memory: three numbers per warp of a row.
// REQUIRES: at most kPacks<T> * kRowThreads packs per row
template <class T, bool kCentred, int kRowThreads>
__global__ void __launch_bounds__(kRowBlock<kRowThreads>, 512 / kRowBlock<kRowThreads>)
    row_norm_in_registers(RowNormForward<T> args) {
  using Math = MathType<T>;
  using Sums = RowSums<Math, kCentred>;
  RINGRAD_SHARED(Math, shared, [kRowWarps<kRowThreads>]);
  RINGRAD_SHARED(Sums, shared_sums, [kRowWarps<kRowThreads>]);
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const bool exists = r < args.rows;
  const Row<T, int> row(exists ? r * args.C : 0, exists ? static_cast<int>(args.C) : 0);
  const auto pack_of = [](int p) { return static_cast<int>(threadIdx.x) + p * kRowThreads; };
  Math values[kPacks<T>][kPack<T>];
  const auto for_each_pack = [&](auto visit) {
#pragma unroll
    for (int p = 0; p < kPacks<T>; ++p)
      if (pack_of(p) < row.packs()) visit(pack_of(p), values[p]);
  };
  Math sum = 0;
  for_each_pack([&](int pack, Math(&in_pack)[kPack<T>]) {
    row.load(args.x, pack, Math{0}, in_pack);
#pragma unroll
    for (const Math value : in_pack) sum += value;
  });
  Math centre = 0;
  if constexpr (kCentred)
    centre = row_reduce<kRowThreads>(sum, Plus(), shared) / static_cast<Math>(args.C);
  Sums sums{};
  for_each_pack([&](int pack, Math(&in_pack)[kPack<T>]) {
    const bool is_whole = row.is_whole(pack);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      in_pack[i] = is_whole || row.holds(pack, i) ? in_pack[i] - centre : Math{0};
      add_distance(sums, in_pack[i]);
    }
  });
  const RowMoments<Math> moments(row_reduce<kRowThreads>(sums, Plus(), shared_sums), args.C,
                                 args.eps);
  for_each_pack([&](int pack, Math(&in_pack)[kPack<T>]) {
    store_normalized(args, row, pack, moments, in_pack);
  });
  if (exists && threadIdx.x == 0) {
    if constexpr (kCentred) args.mean[r] = centre + moments.shift;
    args.rstd[r] = moments.rstd;
  }
}

}  // namespace ringrad::kernels::cuda
