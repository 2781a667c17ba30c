// Cross entropy on a GPU. An example's scores are a row, which 4 lanes, a warp or a block traverses
// once in each direction. Each direction is one kernel that runs at memory bandwidth.
//
//     cross_entropy_row             m, l and the loss of each row, and the sum of a block's losses
//     reduce_losses                 one block: adds those sums in a fixed order
//     cross_entropy_backward_row    the gradient of each row

#include <cmath>

#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/index/index_check.cuh"
#include "ringrad/kernels/loss/cross_entropy.h"
#include "ringrad/kernels/loss/exp_sum.cuh"
#include "ringrad/kernels/per_element.cuh"
#include "ringrad/kernels/reduce/rows.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 512;  // of a block without rows of its own

// The factors of the formula in cross_entropy.h.
template <class Math>
struct Factors {
  __device__ Math weight_of(std::int64_t c) const { return weight ? weight[c] : Math{1}; }
  __device__ bool counts(std::int64_t t) const {
    return t != ignore_index && in_bounds(t, num_classes);
  }
  __device__ Math sum_of_weights() const {
    return weight_sum ? *weight_sum : static_cast<Math>(num_classes);
  }
  /// W_b of a target that counts
  __device__ Math total(std::int64_t t) const {
    return hit * weight_of(t) + (spread > 0 ? spread * sum_of_weights() : Math{0});
  }

  const Math* weight;      // (C), or null
  const Math* weight_sum;  // (), or null if it is not needed or all weights are 1
  std::int64_t num_classes, ignore_index;
  Math hit;     // 1 - s
  Math spread;  // s / C
};

// Sums of losses and of weights, for a weighted mean.
using Sums = Pair<double>;

// The example that a thread works on, the start of its row, and its number of scores: 0 for threads
// without an example.
struct ClassPosition {
  __device__ ClassPosition(std::int64_t batch, std::int64_t num_classes)
      : b(std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y),
        exists(b < batch),
        begin(exists ? b * num_classes : 0),
        size(exists ? num_classes : 0) {}
  std::int64_t b;
  bool exists;
  std::int64_t begin, size;
};

// This thread's part of sum_c w_c (x_c - m). A class of weight 0 contributes 0, even if x_c = -inf.
template <class T, class Math>
__device__ Math weighted_sum(const Row<T>& row, const T* logits, int row_threads,
                             std::int64_t num_classes, Math maximum, const Factors<Math>& factors) {
  Math sum = 0, x[kPack<T>];
  for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += row_threads) {
    row.load(logits, pack, Math{0}, x);
    for (int i = 0; i < kPack<T>; ++i) {
      const std::int64_t c = row.column(pack) + i;
      const Math weight = in_bounds(c, num_classes) ? factors.weight_of(c) : Math{0};
      sum += weight == 0 ? Math{0} : weight * (x[i] - maximum);
    }
  }
  return sum;
}

// Block b processes rows b * blockDim.y ...; thread (x, y) reads packs x, x + kRowThreads ... of
// row y. Writes m and l of each row, its loss unless `losses` is null, and the sums over the
// block's rows unless `sums` is null. Shared memory: an ExpSum and a number per warp of a row, and
// two doubles per row.
template <class T, int kRowThreads>
__global__ void cross_entropy_row(Factors<MathType<T>> factors, std::int64_t batch, const T* logits,
                                  const std::int64_t* targets, MathType<T>* maxima,
                                  MathType<T>* log_sums, T* losses, Sums* sums) {
  using Math = MathType<T>;
  RINGRAD_SHARED(ExpSum<Math>, shared, [kRowWarps<kRowThreads>]);
  RINGRAD_SHARED(Math, shared_weighted, [kRowWarps<kRowThreads>]);
  RINGRAD_SHARED(Sums, row_sums, [kRowsPerBlock<kRowThreads>]);
  const ClassPosition place(batch, factors.num_classes);
  const Row<T> row(place.begin, place.size);
  auto exp_sum = ExpSum<Math>::nothing();
  Math x[kPack<T>];
  for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kRowThreads) {
    row.load(logits, pack, -kInfinity<Math>, x);
    exp_sum.take(x);
  }
  exp_sum = row_reduce<kRowThreads>(exp_sum, MergeExpSums(), shared);
  Math weighted = 0;
  if (factors.spread > 0)
    weighted = row_reduce<kRowThreads>(
        weighted_sum(row, logits, kRowThreads, factors.num_classes, exp_sum.maximum, factors),
        Plus(), shared_weighted);
  if (threadIdx.x == 0) {
    Sums own{0, 0};
    if (place.exists) {
      const std::int64_t t = targets[place.b];
      const Math log_sum = std::log(exp_sum.sum);
      maxima[place.b] = exp_sum.maximum;
      log_sums[place.b] = log_sum;
      Math loss = 0;
      if (factors.counts(t)) {
        const Math shifted = static_cast<Math>(logits[place.begin + t]) - exp_sum.maximum;
        loss = factors.hit * factors.weight_of(t) * (log_sum - shifted);
        if (factors.spread > 0)
          loss += factors.spread * (factors.sum_of_weights() * log_sum - weighted);
        own = {static_cast<double>(loss), static_cast<double>(factors.weight_of(t))};
      }
      if (losses) losses[place.b] = T(loss);
    }
    row_sums[threadIdx.y] = own;
  }
  __syncthreads();  // the sums of all rows are written
  if (sums && threadIdx.x == 0 && threadIdx.y == 0) {
    Sums total = row_sums[0];
    for (int i = 1; i < kRowsPerBlock<kRowThreads>; ++i) total = total + row_sums[i];
    sums[blockIdx.x] = total;
  }
}

// One block. Shared memory: two doubles per warp.
template <class T>
__global__ void reduce_losses(const Sums* sums, std::int64_t n, bool is_mean, T* loss,
                              MathType<T>* divisor) {
  using Math = MathType<T>;
  RINGRAD_SHARED(Sums, shared, [kThreads / kWarp]);
  Sums total{0, 0};
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) total = total + sums[i];
  total = block_reduce<kThreads>(total, Plus(), shared);
  if (threadIdx.x > 0) return;
  const double by = is_mean ? total.second : 1;
  // If all targets of a batch are ignored, the mean is 0 / 0, but its gradient is 0.
  *divisor = static_cast<Math>(by != 0 ? by : 1);
  *loss = T(static_cast<Math>(total.first / by));
}

// One block. Shared memory: a number per warp.
template <class Math>
__global__ void sum_weights(const Math* weight, std::int64_t num_classes, Math* sum) {
  RINGRAD_SHARED(Math, shared, [kThreads / kWarp]);
  Math total = 0;
  for (std::int64_t c = threadIdx.x; c < num_classes; c += kThreads) total += weight[c];
  total = block_reduce<kThreads>(total, Plus(), shared);
  if (threadIdx.x == 0) *sum = total;
}

// One gradient per example, or, if step is 0, one for all examples. operator[] divides it.
template <class T>
struct Gradients {
  const T* values;
  std::int64_t step;
  const MathType<T>* divisor;

  __device__ MathType<T> operator[](std::int64_t b) const {
    return static_cast<MathType<T>>(values[b * step]) / *divisor;
  }
};

// Threads are assigned to rows as in cross_entropy_row.
template <class T, int kRowThreads>
__global__ void cross_entropy_backward_row(Factors<MathType<T>> factors, Gradients<T> grads,
                                           std::int64_t batch, const T* logits,
                                           const std::int64_t* targets, const MathType<T>* maxima,
                                           const MathType<T>* log_sums, T* grad_logits) {
  using Math = MathType<T>;
  const ClassPosition place(batch, factors.num_classes);
  if (!place.exists) return;
  const std::int64_t t = targets[place.b];
  const bool counts = factors.counts(t);
  const Math maximum = maxima[place.b], log_sum = log_sums[place.b];
  const Math grad = counts ? grads[place.b] : Math{0};
  const Math scale = counts ? grad * factors.total(t) : Math{0};  // g W
  const Math at_target = counts ? grad * factors.hit * factors.weight_of(t) : Math{0};
  const Row<T> row(place.begin, place.size);
  Math x[kPack<T>];
  for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kRowThreads) {
    row.load(logits, pack, Math{0}, x);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      const std::int64_t c = row.column(pack) + i;
      // A row whose target is ignored gets zeros, even if its scores are NaN.
      x[i] = scale == 0 ? Math{0} : scale * std::exp(x[i] - maximum - log_sum);
      if (factors.spread > 0 && in_bounds(c, factors.num_classes))
        x[i] -= grad * factors.spread * factors.weight_of(c);
      if (c == t) x[i] -= at_target;
    }
    row.store(grad_logits, pack, x);
  }
}

// One element of the distribution per thread.
template <class T>
__global__ void target_distribution(Factors<MathType<T>> factors, std::int64_t batch,
                                    const std::int64_t* targets, T* total, T* distribution) {
  using Math = MathType<T>;
  const std::int64_t n = batch * factors.num_classes;
  for (const std::int64_t i : own_elements(n)) {
    const std::int64_t b = i / factors.num_classes, c = i % factors.num_classes, t = targets[b];
    const bool counts = factors.counts(t);
    const Math hit = c == t ? factors.hit : Math{0};
    distribution[i] = T(counts ? (hit + factors.spread) * factors.weight_of(c) : Math{0});
    if (c == 0) total[b] = T(counts ? factors.total(t) : Math{0});
  }
}

// -- Host -----------------------------------------------------------------------------------------

// Calls body(factors). The sum of the weights lives as long as the kernels that body queues.
template <class Math, class Body>
void with_factors(const CrossEntropyOptions& options, std::int64_t num_classes, Where where,
                  Body body) {
  Factors<Math> factors{
      .weight = options.weight.defined() ? options.weight.device_data<Math>() : nullptr,
      .weight_sum = nullptr,
      .num_classes = num_classes,
      .ignore_index = options.ignore_index,
      .hit = static_cast<Math>(1 - options.label_smoothing),
      .spread = static_cast<Math>(options.label_smoothing / static_cast<double>(num_classes))};
  Tensor sum;
  if (factors.weight && factors.spread > 0) {
    sum = empty({}, {.dtype = dtype_of<Math>, .device = options.weight.device()}, where);
    launch_on(sum.device(), {.name = "sum_weights", .grid = 1, .block = kThreads}, where,
              sum_weights<Math>, factors.weight, num_classes, sum.device_data<Math>());
    factors.weight_sum = sum.device_data<Math>();
  }
  body(factors);
}

// Calls body.operator()<kRowThreads>() so that a thread has about 8 packs; long rows get a whole
// block.
template <class T, class Body>
void dispatch_row_threads(std::int64_t num_classes, Body body) {
  if (!dispatch_threads_per_row<8, 32>(packs_per_row<T>(num_classes), body))
    body.template operator()<512>();
}

}  // namespace

void cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                   const CrossEntropyResult& result, Where where) {
  const std::int64_t B = targets.numel(), C = logits.shape().back();
  const Device device = logits.device();
  const Tensor scores = aligned(logits, where);
  const bool reduces = options.reduction != Reduction::none;
  dispatch_floating(logits.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const CrossEntropyStatistics& statistics = result.statistics;
    T* loss = result.loss.device_data<T>();
    Tensor sums;  // (blocks, 2)
    with_factors<Math>(options, C, where, [&](const Factors<Math>& factors) {
      dispatch_row_threads<T>(C, [&]<int kRowThreads>() {
        if (B == 0) return;
        const LaunchConfig config =
            threads_per_row<kRowThreads>("cross_entropy", B, bytes_of(logits));
        if (reduces)
          sums = empty({config.grid.x, 2}, {.dtype = DType::float64, .device = device}, where);
        launch_on(device, config, where, cross_entropy_row<T, kRowThreads>, factors, B,
                  scores.device_data<T>(), targets.device_data<std::int64_t>(),
                  statistics.maxima.device_data<Math>(), statistics.log_sums.device_data<Math>(),
                  reduces ? nullptr : loss,
                  reduces ? reinterpret_cast<Sums*>(sums.device_data<double>()) : nullptr);
      });
    });
    if (!reduces) return fill_(statistics.divisor, 1, where);
    launch_on(device, {.name = "reduce_losses", .grid = 1, .block = kThreads}, where,
              reduce_losses<T>,
              B > 0 ? reinterpret_cast<const Sums*>(sums.device_data<double>()) : nullptr,
              B > 0 ? sums.shape()[0] : 0, options.reduction == Reduction::mean, loss,
              statistics.divisor.device_data<Math>());
  });
}

void cross_entropy_backward(const Tensor& grad_output, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyStatistics& statistics,
                            const CrossEntropyOptions& options, const Tensor& grad_logits,
                            Where where) {
  const std::int64_t B = targets.numel(), C = logits.shape().back();
  if (B == 0) return;
  const Tensor scores = aligned(logits, where);
  dispatch_floating(logits.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const Gradients<T> grads{grad_output.device_data<T>(),
                             options.reduction == Reduction::none ? 1 : 0,
                             statistics.divisor.device_data<Math>()};
    with_factors<Math>(options, C, where, [&](const Factors<Math>& factors) {
      dispatch_row_threads<T>(C, [&]<int kRowThreads>() {
        launch_on(logits.device(),
                  threads_per_row<kRowThreads>("cross_entropy_backward", B, 2 * bytes_of(logits)),
                  where, cross_entropy_backward_row<T, kRowThreads>, factors, grads, B,
                  scores.device_data<T>(), targets.device_data<std::int64_t>(),
                  statistics.maxima.device_data<Math>(), statistics.log_sums.device_data<Math>(),
                  grad_logits.device_data<T>());
      });
    });
  });
}

void cross_entropy_targets(const Tensor& targets, const CrossEntropyOptions& options,
                           const CrossEntropyTargets& result, Where where) {
  const Tensor& distribution = result.distribution;
  if (distribution.numel() == 0) return;
  dispatch_floating(distribution.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    with_factors<Math>(options, distribution.shape().back(), where,
                       [&](const Factors<Math>& factors) {
                         launch_on(distribution.device(),
                                   {.name = "target_distribution",
                                    .grid = num_blocks(distribution.numel(), kThreads),
                                    .block = kThreads,
                                    .bytes = bytes_of(distribution)},
                                   where, target_distribution<T>, factors, targets.numel(),
                                   targets.device_data<std::int64_t>(),
                                   result.total.device_data<T>(), distribution.device_data<T>());
                       });
  });
}

}  // namespace ringrad::kernels::cuda
