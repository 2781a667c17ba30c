// Layer normalization on a GPU, as a ladder; bound by bandwidth. The backward pass has its own
// file.
//
//     layer_norm_block_per_row      rows of any length; read three times, usually from the cache
//     layer_norm_in_registers       rows that fit into the registers of their threads; read once
//
// Because of rounding, the computed centre of a row differs from its mean, by many deviations if
// the mean is large. The distances from the centre are exact, and their own mean, `shift`, is the
// missing correction.

#include <cmath>

#include "ringrad/kernels/norm/layer_norm_cuda.h"
#include "ringrad/kernels/norm/parameter.cuh"
#include "ringrad/kernels/reduce/rows.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 512;  // of a block that traverses a row

template <class T>
constexpr int kPacks = packs_in<T>(64);  // packs that a thread keeps

template <class T>
struct Forward {
  using Math = MathType<T>;
  const T* x;              // (rows, C)
  Parameter weight, bias;  // (C)
  T* y;                    // (rows, C)
  Math *mean, *rstd;       // (rows)
  std::int64_t rows, C;
  Math eps;
};

// Computes from a row's distances to its centre: their mean, and 1 / the standard deviation.
template <class Math>
struct Moments {
  Math shift, rstd;

  __device__ Moments(Pair<Math> distances_and_squares, std::int64_t C, Math eps) {
    const auto n = static_cast<Math>(C);
    shift = distances_and_squares.first / n;
    const Math var = distances_and_squares.second / n - shift * shift;
    rstd = 1 / std::sqrt((var < 0 ? Math{0} : var) + eps);  // equal values can round below 0
  }
};

// y of one pack from its distances to the centre.
template <class T, class Index, class Math>
__device__ void store_normalized(const Forward<T>& args, const Row<T, Index>& row, Index pack,
                                 const Moments<Math>& moments, Math (&distances)[kPack<T>]) {
  Math weight[kPack<T>], bias[kPack<T>];
  load_parameters<T>(args.weight, row.column(pack), static_cast<Index>(args.C), Math{1}, weight);
  load_parameters<T>(args.bias, row.column(pack), static_cast<Index>(args.C), Math{0}, bias);
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i)
    distances[i] = (distances[i] - moments.shift) * moments.rstd * weight[i] + bias[i];
  row.store(args.y, pack, distances);
}

// Block b processes row b, thread t its packs t, t + kThreads ... Shared memory: three numbers per
// warp.
template <class T>
__global__ void __launch_bounds__(kThreads, 2) layer_norm_block_per_row(Forward<T> args) {
  using Math = MathType<T>;
  RINGRAD_SHARED(Math, shared, [kThreads / kWarp]);
  RINGRAD_SHARED(Pair<Math>, shared_pairs, [kThreads / kWarp]);
  const Row<T> row(blockIdx.x * args.C, args.C);
  // Calls visit(pack, its distances from `centre`); the distances are 0 outside the row.
  const auto for_each_pack = [&](Math centre, auto visit) {
    Math values[kPack<T>];
    for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kThreads) {
      row.load(args.x, pack, centre, values);
#pragma unroll
      for (Math& value : values) value -= centre;
      visit(pack, values);
    }
  };
  Math sum = 0;
  for_each_pack(0, [&](std::int64_t, const Math(&values)[kPack<T>]) {
    for (const Math value : values) sum += value;
  });
  const Math centre = block_reduce<kThreads>(sum, Plus(), shared) / static_cast<Math>(args.C);
  Pair<Math> sums{0, 0};
  for_each_pack(centre, [&](std::int64_t, const Math(&values)[kPack<T>]) {
    for (const Math value : values) sums = sums + Pair<Math>{value, value * value};
  });
  const Moments<Math> moments(block_reduce<kThreads>(sums, Plus(), shared_pairs), args.C, args.eps);
  for_each_pack(centre, [&](std::int64_t pack, Math(&values)[kPack<T>]) {
    store_normalized(args, row, pack, moments, values);
  });
  if (threadIdx.x == 0) {
    args.mean[blockIdx.x] = centre + moments.shift;
    args.rstd[blockIdx.x] = moments.rstd;
  }
}

// Block b processes rows b * blockDim.y ...; thread (x, y) reads packs x, x + kRowThreads ... of
// row y. Shared memory: three numbers per warp of a row.
// REQUIRES: at most kPacks<T> * kRowThreads packs per row
template <class T, int kRowThreads>
__global__ void __launch_bounds__(kRowBlock<kRowThreads>, 768 / kRowBlock<kRowThreads>)
    layer_norm_in_registers(Forward<T> args) {
  using Math = MathType<T>;
  RINGRAD_SHARED(Math, shared, [kRowWarps<kRowThreads>]);
  RINGRAD_SHARED(Pair<Math>, shared_pairs, [kRowWarps<kRowThreads>]);
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const bool exists = r < args.rows;
  const Row<T, int> row(exists ? r * args.C : 0, exists ? static_cast<int>(args.C) : 0);
  const auto pack_of = [](int p) { return static_cast<int>(threadIdx.x) + p * kRowThreads; };
  Math values[kPacks<T>][kPack<T>];
  Math sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks<T>; ++p) {
    row.load(args.x, pack_of(p), Math{0}, values[p]);
#pragma unroll
    for (const Math value : values[p]) sum += value;
  }
  const Math centre = row_reduce<kRowThreads>(sum, Plus(), shared) / static_cast<Math>(args.C);
  Pair<Math> sums{0, 0};
#pragma unroll
  for (int p = 0; p < kPacks<T>; ++p)
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      Math& value = values[p][i];
      value = row.holds(pack_of(p), i) ? value - centre : Math{0};
      sums = sums + Pair<Math>{value, value * value};
    }
  const Moments<Math> moments(row_reduce<kRowThreads>(sums, Plus(), shared_pairs), args.C,
                              args.eps);
#pragma unroll
  for (int p = 0; p < kPacks<T>; ++p) {
    const int pack = pack_of(p);
    if (pack < row.packs()) store_normalized(args, row, pack, moments, values[p]);
  }
  if (exists && threadIdx.x == 0) {
    args.mean[r] = centre + moments.shift;
    args.rstd[r] = moments.rstd;
  }
}

}  // namespace

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                const LayerNormResult& result, Where where) {
  const Tensor in = aligned(x, where);
  const double bytes = 2 * bytes_of(x);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    Tensor keep[2];
    const std::int64_t C = x.shape().back();
    const Forward<T> args{.x = in.device_data<T>(),
                          .weight = parameter_of(weight, dtype_of<Math>, keep[0], where),
                          .bias = parameter_of(bias, dtype_of<Math>, keep[1], where),
                          .y = result.output.device_data<T>(),
                          .mean = result.mean.device_data<Math>(),
                          .rstd = result.rstd.device_data<Math>(),
                          .rows = x.numel() / C,
                          .C = C,
                          .eps = static_cast<Math>(eps)};
    const bool fits =
        dispatch_threads_per_row<kPacks<T>, 256>(packs_per_row<T>(C), [&]<int kRowThreads>() {
          launch_on(x.device(), threads_per_row<kRowThreads>("layer_norm", args.rows, bytes), where,
                    layer_norm_in_registers<T, kRowThreads>, args);
        });
    if (fits) return;
    const LaunchConfig config{.name = "layer_norm",
                              .grid = static_cast<unsigned>(args.rows),
                              .block = kThreads,
                              .bytes = bytes};
    launch_on(x.device(), config, where, layer_norm_block_per_row<T>, args);
  });
}

}  // namespace ringrad::kernels::cuda
