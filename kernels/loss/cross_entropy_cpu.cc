#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/elementwise/math.h"
#include "ringrad/kernels/loss/cross_entropy.h"
#include "ringrad/kernels/loss/softmax_tile.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// The factors of the formula in cross_entropy.h.
template <class Math>
struct Factors {
  Factors(const CrossEntropyOptions& options, std::int64_t num_classes)
      : weight(options.weight.defined() ? options.weight.data<Math>() : nullptr),
        ignore_index(options.ignore_index),
        hit(static_cast<Math>(1 - options.label_smoothing)),
        spread(static_cast<Math>(options.label_smoothing / static_cast<double>(num_classes))),
        weight_sum(static_cast<Math>(num_classes)) {
    if (!weight) return;
    weight_sum = 0;
    for (std::int64_t c = 0; c < num_classes; ++c) weight_sum += weight[c];
  }

  Math weight_of(std::int64_t c) const { return weight ? weight[c] : Math{1}; }
  bool counts(std::int64_t t) const { return t != ignore_index; }
  /// W_b of a target that counts
  Math total(std::int64_t t) const { return hit * weight_of(t) + spread * weight_sum; }

  const Math* weight;
  std::int64_t ignore_index;
  Math hit;     // 1 - s
  Math spread;  // s / C
  Math weight_sum;
};

// The class weights as a tile: each score's place holds the weight of its class; padding holds 0.
template <class Math>
void load_weights(const Tiles& tiles, const Factors<Math>& factors, Math* values) {
  std::fill_n(values, tiles.depth() * kLanes, Math{0});
  for (std::int64_t c = 0; c < tiles.size(); ++c)
    for (std::int64_t lane = 0; lane < (tiles.folded() ? 1 : kLanes); ++lane)
      values[tiles.place(c, lane)] = factors.weight_of(c);
}

// The examples, and the two numbers per example that the forward pass writes and the backward pass
// reads.
template <class T>
struct Batch {
  using Math = MathType<T>;

  Batch(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
        const CrossEntropyStatistics& statistics)
      : tiles(logits, 1),
        factors(options, tiles.size()),
        size(targets.numel()),
        logits(logits.data<T>()),
        targets(targets.data<std::int64_t>()),
        maxima(statistics.maxima.data<Math>()),
        log_sums(statistics.log_sums.data<Math>()) {}

  /// Calls body(begin, end, scratch) for ranges of tiles; scratch has room for two tiles.
  template <class Body>
  void for_each_range(Body body) const {
    parallel_for(tiles.count(), tiles.grain(), [&](std::int64_t begin, std::int64_t end) {
      const Tensor scratch = empty({2, tiles.depth(), kLanes}, {.dtype = dtype_of<Math>});
      body(begin, end, scratch.data<Math>());
    });
  }

  Tiles tiles;
  Factors<Math> factors;
  std::int64_t size;  // B
  const T* logits;
  const std::int64_t* targets;
  Math* maxima;
  Math* log_sums;
};

template <class T, class Math>
RINGRAD_CLONES void forward_tiles(const Batch<T>& batch, std::int64_t begin, std::int64_t end,
                                  Math* scratch, Math* losses) {
  const Tiles& tiles = batch.tiles;
  const Factors<Math>& factors = batch.factors;
  Math* const x = scratch;
  Math* const weights = scratch + tiles.depth() * kLanes;
  if (factors.spread > 0) load_weights(tiles, factors, weights);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    tiles.load(tile, batch.logits, -std::numeric_limits<Math>::infinity(), x);
    const Lanes<Math> maximum = row_maxima(tiles, x);
    const Lanes<Math> sum =
        row_sums<Math>(tiles, [&](auto i, auto lane) { return std::exp(x[i] - maximum[lane]); });
    // sum_c w_c (x_c - m); a class of weight 0 contributes 0, even if x_c = -inf
    Lanes<Math> weighted;
    if (factors.spread > 0)
      weighted = row_sums<Math>(tiles, [&](auto i, auto lane) {
        return weights[i] == 0 ? Math{0} : weights[i] * (x[i] - maximum[lane]);
      });
    for (std::int64_t lane = 0; lane < tiles.rows_in(tile); ++lane) {
      const std::int64_t b = tiles.first_row(tile) + lane, t = batch.targets[b];
      const Math log_sum = std::log(sum[lane]);
      batch.maxima[b] = maximum[lane];
      batch.log_sums[b] = log_sum;
      losses[b] = 0;
      if (!factors.counts(t)) continue;
      const Math shifted = x[tiles.place(t, lane)] - maximum[lane];
      losses[b] = factors.hit * factors.weight_of(t) * (log_sum - shifted);
      if (factors.spread > 0)
        losses[b] += factors.spread * (factors.weight_sum * log_sum - weighted[lane]);
    }
  }
}

// The divisor of a mean.
template <class T>
double sum_of_weights(const Batch<T>& batch) {
  double sum = 0;
  for (std::int64_t b = 0; b < batch.size; ++b)
    if (const std::int64_t t = batch.targets[b]; batch.factors.counts(t))
      sum += static_cast<double>(batch.factors.weight_of(t));
  return sum;
}

// g: one gradient per example, or, if step is 0, one for all examples.
template <class Math>
struct Gradients {
  const Math* values;
  std::int64_t step;

  Math operator[](std::int64_t b) const { return values[b * step]; }
};

// The inputs of the gradient of a tile's rows, per lane.
template <class Math>
struct RowFactors {
  template <class T>
  RowFactors(const Batch<T>& batch, const Gradients<Math>& grads, std::int64_t tile) {
    const Tiles& tiles = batch.tiles;
    const std::int64_t num_lanes = tiles.folded() ? kLanes : tiles.rows_in(tile);
    for (std::int64_t lane = 0; lane < num_lanes; ++lane) {
      const std::int64_t b = tiles.first_row(tile) + (tiles.folded() ? 0 : lane);
      maximum[lane] = batch.maxima[b];
      log_sum[lane] = batch.log_sums[b];
      if (!batch.factors.counts(batch.targets[b])) continue;
      scale[lane] = grads[b] * batch.factors.total(batch.targets[b]);
      spread[lane] = grads[b] * batch.factors.spread;
    }
  }

  Lanes<Math> maximum{}, log_sum{};
  Lanes<Math> scale{};   // g W
  Lanes<Math> spread{};  // g s / C
};

template <class T, class Math>
RINGRAD_CLONES void backward_tiles(const Batch<T>& batch, const Gradients<Math>& grads,
                                   std::int64_t begin, std::int64_t end, Math* scratch,
                                   T* grad_logits) {
  const Tiles& tiles = batch.tiles;
  const Factors<Math>& factors = batch.factors;
  Math* const x = scratch;
  Math* const weights = scratch + tiles.depth() * kLanes;
  if (factors.spread > 0) load_weights(tiles, factors, weights);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const RowFactors<Math> row(batch, grads, tile);
    tiles.load(tile, batch.logits, Math{0}, x);
    // A row whose target is ignored gets zeros, even if its scores are NaN.
    for_each_value(tiles, x, [&](auto i, auto lane) {
      const Math p = std::exp(x[i] - row.maximum[lane] - row.log_sum[lane]);
      return row.scale[lane] == 0 ? Math{0} : row.scale[lane] * p;
    });
    if (factors.spread > 0)
      for_each_value(tiles, x,
                     [&](auto i, auto lane) { return x[i] - row.spread[lane] * weights[i]; });
    for (std::int64_t lane = 0; lane < tiles.rows_in(tile); ++lane) {
      const std::int64_t b = tiles.first_row(tile) + lane, t = batch.targets[b];
      if (factors.counts(t))
        x[tiles.place(t, lane)] -= grads[b] * factors.hit * factors.weight_of(t);
    }
    tiles.store(tile, x, grad_logits);
  }
}

}  // namespace

void cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                   const CrossEntropyResult& result) {
  dispatch_floating(logits.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const Batch<T> batch(logits, targets, options, result.statistics);
    const Tensor losses = empty({batch.size}, {.dtype = dtype_of<Math>});
    Math* loss = losses.data<Math>();
    batch.for_each_range([&](std::int64_t begin, std::int64_t end, Math* scratch) {
      forward_tiles(batch, begin, end, scratch, loss);
    });
    const double divisor = options.reduction == Reduction::mean ? sum_of_weights(batch) : 1;
    // If all targets of a batch are ignored, the mean is 0 / 0, but its gradient is 0.
    *result.statistics.divisor.data<Math>() = static_cast<Math>(divisor != 0 ? divisor : 1);
    T* out = result.loss.data<T>();
    if (options.reduction == Reduction::none) {
      std::transform(loss, loss + batch.size, out, [](Math l) { return static_cast<T>(l); });
    } else {
      // In order, so that the sum does not depend on the number of threads.
      const double sum = std::accumulate(loss, loss + batch.size, 0.0);
      *out = static_cast<T>(static_cast<Math>(sum / divisor));
    }
  });
}

void cross_entropy_backward(const Tensor& grad_output, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyStatistics& statistics,
                            const CrossEntropyOptions& options, const Tensor& grad_logits) {
  dispatch_floating(logits.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const Batch<T> batch(logits, targets, options, statistics);
    const Math divisor = *statistics.divisor.data<Math>();
    const Tensor divided = empty(grad_output.shape(), {.dtype = dtype_of<Math>});
    const T* grad = grad_output.data<T>();
    std::transform(grad, grad + divided.numel(), divided.data<Math>(),
                   [&](T g) { return static_cast<Math>(g) / divisor; });
    const Gradients<Math> grads{divided.data<Math>(), options.reduction == Reduction::none ? 1 : 0};
    batch.for_each_range([&](std::int64_t begin, std::int64_t end, Math* scratch) {
      backward_tiles(batch, grads, begin, end, scratch, grad_logits.data<T>());
    });
  });
}

void cross_entropy_targets(const Tensor& targets, const CrossEntropyOptions& options,
                           const CrossEntropyTargets& result) {
  const std::int64_t num_classes = result.distribution.shape().back();
  const std::int64_t* target = targets.data<std::int64_t>();
  dispatch_floating(result.distribution.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const Factors<Math> factors(options, num_classes);
    for (std::int64_t b = 0; b < targets.numel(); ++b) {
      const std::int64_t t = target[b];
      const bool counts = factors.counts(t);
      T* q = result.distribution.data<T>() + b * num_classes;
      for (std::int64_t c = 0; c < num_classes; ++c) {
        const Math hit = c == t ? factors.hit : Math{0};
        q[c] = static_cast<T>(counts ? (hit + factors.spread) * factors.weight_of(c) : Math{0});
      }
      result.total.data<T>()[b] = static_cast<T>(counts ? factors.total(t) : Math{0});
    }
  });
}

}  // namespace ringrad::kernels::cpu
