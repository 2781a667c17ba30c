// The kernels of the backward pass of layer and RMS normalization on a GPU, as a ladder; bound by
// bandwidth. Besides the gradient of x it needs sums over rows; each block sums the rows that it
// processes. row_norm_backward_cuda.cu launches them. Private to kernels/norm.
//
//     row_norm_backward_block_per_row and sum_columns_of_rows      read everything three times
//     row_norm_backward_in_registers                               reads it once, sums on the way
//     sum_partials                                                 adds the blocks' sums in order
//
// kCentred: layer norm. RMS norm has no bias, and no mean in its formulas: these are 0.

#pragma once

#include "ringrad/kernels/norm/parameter.cuh"
#include "ringrad/kernels/reduce/rows.cuh"

namespace ringrad::kernels::cuda {

inline constexpr int kGradientThreads = 512;        // of a block that traverses a row
inline constexpr int kColumns = 32, kStripes = 16;  // threads of a block that sums columns

template <class T>
inline constexpr int kPacksKept = packs_in<T>(32);  // of x and of the gradient, plus as many sums

// Each multiprocessor needs 1024 threads to hide latencies, or 512 if they compute in float64.
template <int kRowThreads, class T>
inline constexpr int kResidentBlocks = 4096 / sizeof(MathType<T>) / kRowBlock<kRowThreads>;

template <class T, bool kCentred>
struct RowNormBackward {
  using Math = MathType<T>;
  static constexpr int kSums = kCentred ? 2 : 1;

  const T *grad_y, *x;      // (rows, C)
  Parameter weight;         // (C)
  const Math *mean, *rstd;  // (rows)
  T* grad_x;                // (rows, C)
  Math* partials;  // (blocks, kSums, C): sums of grad_y * xhat and of grad_y over a block's rows
  std::int64_t rows, C;

  __device__ Pair<Math> statistics(std::int64_t row) const {
    return {kCentred ? mean[row] : Math{0}, rstd[row]};
  }
};

// grad_y and xhat of one pack of row r; both are 0 outside the row.
template <class T, bool kCentred, class Index, class Math>
__device__ void load_gradients(const RowNormBackward<T, kCentred>& args, const Row<T, Index>& row,
                               Pair<Math> mean_and_rstd, Index pack, Math (&grad)[kPack<T>],
                               Math (&xhat)[kPack<T>]) {
  const auto [mean, rstd] = mean_and_rstd;
  row.load(args.grad_y, pack, Math{0}, grad);
  row.load(args.x, pack, mean, xhat);
#pragma unroll
  for (Math& value : xhat) value = (value - mean) * rstd;
}

template <class T, bool kCentred, class Index, class Math>
__device__ void weigh(const RowNormBackward<T, kCentred>& args, Index column,
                      Math (&grad)[kPack<T>]) {
  Math weight[kPack<T>];
  load_parameters<T>(args.weight, column, static_cast<Index>(args.C), Math{1}, weight);
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) grad[i] *= weight[i];
}

template <class Math, int V>
__device__ void add_to_sums(Pair<Math>& sums, const Math (&g)[V], const Math (&xhat)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i) sums = sums + Pair<Math>{g[i], g[i] * xhat[i]};
}

// grad_x = rstd * (g - mean(g) - xhat * mean(g * xhat)); `sums` are those of the row.
template <class T, bool kCentred, class Index, class Math>
__device__ void store_gradient(const RowNormBackward<T, kCentred>& args, const Row<T, Index>& row,
                               Math rstd, Index pack, Pair<Math> sums, const Math (&g)[kPack<T>],
                               const Math (&xhat)[kPack<T>]) {
  const auto C = static_cast<Math>(args.C);
  const Math mean_g = kCentred ? sums.first / C : Math{0}, mean_gx = sums.second / C;
  Math result[kPack<T>];
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) result[i] = rstd * (g[i] - mean_g - xhat[i] * mean_gx);
  row.store(args.grad_x, pack, result);
}

// Block b processes row b, thread t its packs t, t + kGradientThreads ... Shared memory: two
// numbers per warp.
template <class T, bool kCentred>
__global__ void row_norm_backward_block_per_row(RowNormBackward<T, kCentred> args) {
  using Math = MathType<T>;
  RINGRAD_SHARED(Pair<Math>, shared, [kGradientThreads / kWarp]);
  const Row<T> row(blockIdx.x * args.C, args.C);
  const Pair<Math> statistics = args.statistics(blockIdx.x);
  Math g[kPack<T>], xhat[kPack<T>];
  Pair<Math> sums{0, 0};
  for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kGradientThreads) {
    load_gradients(args, row, statistics, pack, g, xhat);
    weigh(args, row.column(pack), g);
    add_to_sums(sums, g, xhat);
  }
  sums = block_reduce<kGradientThreads>(sums, Plus(), shared);
  for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kGradientThreads) {
    load_gradients(args, row, statistics, pack, g, xhat);
    weigh(args, row.column(pack), g);
    store_gradient(args, row, statistics.second, pack, sums, g, xhat);
  }
}

// Block (i, b) sums kColumns columns over every gridDim.y-th group of kStripes rows; thread (x, y)
// sums over row y of each group. Shared memory: two numbers per thread.
template <class T, bool kCentred>
__global__ void sum_columns_of_rows(RowNormBackward<T, kCentred> args) {
  using Math = MathType<T>;
  RINGRAD_SHARED(Pair<Math>, shared, [kStripes][kColumns]);
  const std::int64_t c = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.y} * kStripes;
  Pair<Math> sums{0, 0};
  for (std::int64_t row = std::int64_t{blockIdx.y} * kStripes + threadIdx.y;
       c < args.C && row < args.rows; row += step) {
    const Math grad = static_cast<Math>(args.grad_y[row * args.C + c]);
    const Math x = static_cast<Math>(args.x[row * args.C + c]);
    const auto [mean, rstd] = args.statistics(row);
    sums = sums + Pair<Math>{grad * (x - mean) * rstd, grad};
  }
  shared[threadIdx.y][threadIdx.x] = sums;
  __syncthreads();  // the sums of all stripes are written
  if (threadIdx.y > 0 || c >= args.C) return;
  for (int y = 1; y < kStripes; ++y) sums = sums + shared[y][threadIdx.x];
  Math* partials = args.partials + std::int64_t{blockIdx.y} * args.kSums * args.C;
  partials[c] = sums.first;
  if constexpr (kCentred) partials[args.C + c] = sums.second;
}

// Block b processes every gridDim.x-th row, kRowsPerBlock of them at a time; thread (x, y)
// processes packs x, x + kRowThreads ... of the y-th of these. A thread always sees the same
// columns: gridDim.x is a multiple of the elements in a pack, so rows gridDim.x apart begin at the
// same place in a pack. Shared memory: two numbers per warp of a row, and a pack of numbers per
// thread if threads of several rows share columns.
// REQUIRES: at most kPacksKept<T> * kRowThreads packs per row
template <class T, bool kCentred, int kRowThreads>
__global__ void __launch_bounds__(kRowBlock<kRowThreads>, kResidentBlocks<kRowThreads, T>)
    row_norm_backward_in_registers(RowNormBackward<T, kCentred> args) {
  using Math = MathType<T>;
  constexpr int kPacks = kPacksKept<T>, V = kPack<T>, kRows = kRowsPerBlock<kRowThreads>;
  RINGRAD_SHARED(Pair<Math>, shared, [kRowWarps<kRowThreads>]);
  RINGRAD_SHARED(Math, others, [kRows][kRows > 1 ? kRowThreads : 1][V]);
  const auto pack_of = [](int p) { return static_cast<int>(threadIdx.x) + p * kRowThreads; };
  const Row<T, int> columns(std::int64_t{blockIdx.x} * args.C, static_cast<int>(args.C));
  Math weight_sums[kPacks][V] = {};
  Math bias_sums[kCentred ? kPacks : 1][V] = {};
  const std::int64_t step = std::int64_t{gridDim.x} * kRows;
  for (std::int64_t first = blockIdx.x; first < args.rows; first += step) {
    const std::int64_t r = first + std::int64_t{threadIdx.y} * gridDim.x;
    const bool exists = r < args.rows;
    const Row<T, int> row(exists ? r * args.C : 0, exists ? static_cast<int>(args.C) : 0);
    const Pair<Math> statistics = exists ? args.statistics(r) : Pair<Math>{0, 0};
    Math g[kPacks][V], xhat[kPacks][V];
    Pair<Math> sums{0, 0};
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      load_gradients(args, row, statistics, pack_of(p), g[p], xhat[p]);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        weight_sums[p][i] += g[p][i] * xhat[p][i];
        if constexpr (kCentred) bias_sums[p][i] += g[p][i];
      }
      if (pack_of(p) < columns.packs()) weigh(args, columns.column(pack_of(p)), g[p]);
      add_to_sums(sums, g[p], xhat[p]);
    }
    sums = row_reduce<kRowThreads>(sums, Plus(), shared);
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      store_gradient(args, row, statistics.second, pack_of(p), sums, g[p], xhat[p]);
  }
  const auto store_sums = [&](Math(&sums)[V], int p, Math* to) {
    if constexpr (kRows > 1) {
      for (int i = 0; i < V; ++i) others[threadIdx.y][threadIdx.x][i] = sums[i];
      __syncthreads();  // the sums of all rows are written
      for (int y = 1; y < kRows; ++y)
        for (int i = 0; i < V; ++i) sums[i] += others[y][threadIdx.x][i];
      __syncthreads();  // all have read, so that the next call may write
    }
    if (threadIdx.y > 0) return;
    for (int i = 0; i < V; ++i)
      if (columns.holds(pack_of(p), i)) to[columns.column(pack_of(p)) + i] = sums[i];
  };
  Math* partials = args.partials + std::int64_t{blockIdx.x} * args.kSums * args.C;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    store_sums(weight_sums[p], p, partials);
    if constexpr (kCentred) store_sums(bias_sums[p], p, partials + args.C);
  }
}

// Block i sums columns [i * kColumns ...) of (blocks, columns) partials; thread (x, y) sums every
// kStripes-th row. The first C sums are grad_weight, the others grad_bias. Shared memory: one
// number per thread.
template <class Math>
__global__ void sum_partials(const Math* partials, std::int64_t blocks, std::int64_t columns,
                             std::int64_t C, Math* grad_weight, Math* grad_bias) {
  RINGRAD_SHARED(Math, shared, [kStripes][kColumns]);
  const std::int64_t c = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  Math sum = 0;
  for (std::int64_t b = threadIdx.y; c < columns && b < blocks; b += kStripes)
    sum += partials[b * columns + c];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();  // the sums of all stripes are written
  if (threadIdx.y > 0 || c >= columns) return;
  for (int y = 1; y < kStripes; ++y) sum += shared[y][threadIdx.x];
  (c < C ? grad_weight[c] : grad_bias[c - C]) = sum;
}

}  // namespace ringrad::kernels::cuda
