// Every pass is bound by memory: its loops do little per element, so the order of the traversal
// matters most. Sums go down the stripe's columns, so that they vectorise without reordering any
// addition.

#include <algorithm>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/norm/norm_cpu.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

/// Calls body(chunk, begin, end) for every chunk, in parallel; [begin, end) are elements.
template <class Body>
void for_each_chunk(const Stripes& stripes, Body body) {
  parallel_for(stripes.chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k)
      body(k, k * stripes.chunk, std::min((k + 1) * stripes.chunk, stripes.size));
  });
}

/// How many of n elements are in each of a stripe's columns: one more in the first n % width.
struct ColumnCounts {
  ColumnCounts(const Stripes& stripes, std::int64_t n)
      : full(n / stripes.width), extra(n % stripes.width) {}
  std::int64_t operator[](std::int64_t column) const { return full + (column < extra ? 1 : 0); }
  std::int64_t full, extra;
};

// The loops below process n elements that start at a multiple of the width, so column j has the
// same channel in every stripe. "Row" below means such a stripe.

// sum[j] += (x - first row), column by column. Distances from a value of the same column stay small
// and exact even if the mean is large, and so do their sums.
template <class T>
RINGRAD_CLONES void sum_shifted(std::int64_t width, std::int64_t n, const T* __restrict x,
                                T* __restrict sum) {
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t columns = std::min(width, n - i);
    for (std::int64_t j = 0; j < columns; ++j) sum[j] += x[i + j] - x[j];
  }
}

// sum[j] += ((x - first row) - offset)^2, where first row + offset is the column's mean.
template <class T>
RINGRAD_CLONES void sum_squared_distances(std::int64_t width, std::int64_t n, const T* __restrict x,
                                          const T* __restrict offset, T* __restrict sum) {
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t columns = std::min(width, n - i);
    for (std::int64_t j = 0; j < columns; ++j) {
      const T distance = (x[i + j] - x[j]) - offset[j];
      sum[j] += distance * distance;
    }
  }
}

// y before ReLU, from a value's distance to its mean. Forward and backward passes share this
// function, so that they round alike and agree on the sign.
template <bool kResidual, class T>
inline T normalized(T distance, T scale, T bias, const T* residual, std::int64_t at) {
  const T y = distance * scale + bias;
  if constexpr (kResidual) return y + residual[at];
  return y;
}

template <class T, bool kRelu, bool kResidual>
RINGRAD_CLONES void apply(std::int64_t width, std::int64_t n, const T* __restrict mean,
                          const T* __restrict scale, const T* __restrict bias,
                          const T* __restrict x, const T* __restrict residual, T* __restrict y) {
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t columns = std::min(width, n - i);
    for (std::int64_t j = 0; j < columns; ++j) {
      const T value = normalized<kResidual>(x[i + j] - mean[j], scale[j], bias[j], residual, i + j);
      y[i + j] = kRelu && value < 0 ? T{0} : value;
    }
  }
}

template <class T, bool kRelu, bool kResidual>
RINGRAD_CLONES void sum_gradients(std::int64_t width, std::int64_t n, const T* __restrict mean,
                                  const T* __restrict scale, const T* __restrict bias,
                                  const T* __restrict x, const T* __restrict residual,
                                  const T* __restrict grad, T* __restrict sum_g,
                                  T* __restrict sum_gx) {
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t columns = std::min(width, n - i);
    for (std::int64_t j = 0; j < columns; ++j) {
      const T distance = x[i + j] - mean[j];
      const T y = normalized<kResidual>(distance, scale[j], bias[j], residual, i + j);
      const T g = kRelu && y <= 0 ? T{0} : grad[i + j];
      sum_g[j] += g;
      sum_gx[j] += g * distance;
    }
  }
}

template <class T, bool kMoments, bool kRelu, bool kResidual>
RINGRAD_CLONES void backward_apply(std::int64_t width, std::int64_t n, const T* __restrict mean,
                                   const T* __restrict scale, const T* __restrict bias,
                                   const T* __restrict slope, const T* __restrict constant,
                                   const T* __restrict x, const T* __restrict residual,
                                   const T* __restrict grad, T* __restrict grad_x,
                                   T* __restrict grad_residual) {
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t columns = std::min(width, n - i);
    for (std::int64_t j = 0; j < columns; ++j) {
      const T distance = x[i + j] - mean[j];
      const T y = normalized<kResidual>(distance, scale[j], bias[j], residual, i + j);
      const T g = kRelu && y <= 0 ? T{0} : grad[i + j];
      grad_x[i + j] = scale[j] * g;
      if constexpr (kMoments) grad_x[i + j] += slope[j] * distance + constant[j];
      if constexpr (kResidual) grad_residual[i + j] = g;
    }
  }
}

/// Element `begin` of an array, or null if the array is null.
template <class T>
T* from(T* data, std::int64_t begin) {
  return data ? data + begin : nullptr;
}

/// Two sums per column and chunk, laid out chunk by chunk, so that chunks never share a cache line.
template <class T>
struct ChunkSums {
  explicit ChunkSums(const Stripes& s)
      : width(s.width), values(static_cast<std::size_t>(2 * s.width * s.chunks), T{0}) {}
  T* first(std::int64_t chunk) { return values.data() + 2 * chunk * width; }
  T* second(std::int64_t chunk) { return first(chunk) + width; }

  std::int64_t width;
  std::vector<T> values;
};

/// Sums term(chunk, column) for each channel, in float64 and in a fixed order.
template <class Term>
RINGRAD_CLONES std::vector<double> total_per_channel(const Stripes& stripes, Term term) {
  std::vector<double> columns(static_cast<std::size_t>(stripes.width), 0.0);
  for (std::int64_t k = 0; k < stripes.chunks; ++k)
    for (std::int64_t j = 0; j < stripes.width; ++j)
      columns[static_cast<std::size_t>(j)] += term(k, j);
  std::vector<double> channels(static_cast<std::size_t>(stripes.channels), 0.0);
  for (std::int64_t j = 0; j < stripes.width; ++j)
    channels[static_cast<std::size_t>(j % stripes.channels)] +=
        columns[static_cast<std::size_t>(j)];
  return channels;
}

}  // namespace

Stripes::Stripes(std::int64_t rows, std::int64_t channels)
    : channels(channels), size(rows * channels) {
  width = channels * std::max<std::int64_t>(1, 256 / channels);
  // 128 KiB of floats; for wide stripes at least 32 rows, or the sums would outweigh the data.
  chunk = width * std::max<std::int64_t>(32, (1 << 15) / width);
  chunks = (size + chunk - 1) / chunk;
}

template <class T>
std::vector<T> repeat(const Stripes& stripes, const std::vector<T>& values) {
  std::vector<T> repeated;
  repeated.reserve(static_cast<std::size_t>(stripes.width));
  while (repeated.size() < static_cast<std::size_t>(stripes.width))
    repeated.insert(repeated.end(), values.begin(), values.end());
  return repeated;
}

template <class T>
void batch_norm_moments(const Stripes& stripes, const T* x, T* mean, T* var) {
  ChunkSums<T> sums(stripes);  // per chunk and column: mean minus first row, and squared distances
  for_each_chunk(stripes, [&](std::int64_t k, std::int64_t begin, std::int64_t end) {
    const ColumnCounts counts(stripes, end - begin);
    T* offsets = sums.first(k);
    sum_shifted(stripes.width, end - begin, x + begin, offsets);
    for (std::int64_t j = 0; j < stripes.width; ++j)
      offsets[j] /= static_cast<T>(std::max<std::int64_t>(counts[j], 1));
    sum_squared_distances(stripes.width, end - begin, x + begin, offsets, sums.second(k));
  });
  // Sums over parts combine exactly: the squared distances from a part's mean, plus the part's size
  // times the squared distance between its mean and the overall mean.
  const ColumnCounts whole(stripes, stripes.chunk);
  const ColumnCounts rest(stripes, stripes.size - (stripes.chunks - 1) * stripes.chunk);
  const auto count = [&](std::int64_t k, std::int64_t j) {
    return k + 1 < stripes.chunks ? whole[j] : rest[j];
  };
  const auto mean_of_part = [&](std::int64_t k, std::int64_t j) {
    return static_cast<double>(x[k * stripes.chunk + j]) + static_cast<double>(sums.first(k)[j]);
  };
  const double rows = static_cast<double>(stripes.size / stripes.channels);
  std::vector<double> means = total_per_channel(stripes, [&](std::int64_t k, std::int64_t j) {
    const std::int64_t n = count(k, j);
    return n == 0 ? 0.0 : static_cast<double>(n) * mean_of_part(k, j);
  });
  for (double& value : means) value /= rows;
  const std::vector<double> repeated = repeat(stripes, means);
  const std::vector<double> squares =
      total_per_channel(stripes, [&](std::int64_t k, std::int64_t j) {
        const std::int64_t n = count(k, j);
        if (n == 0) return 0.0;  // a last chunk shorter than a stripe: its x ends before column j
        const double shift = mean_of_part(k, j) - repeated[static_cast<std::size_t>(j)];
        return static_cast<double>(sums.second(k)[j]) + static_cast<double>(n) * shift * shift;
      });
  for (std::size_t c = 0; c < means.size(); ++c) {
    mean[c] = static_cast<T>(means[c]);
    var[c] = static_cast<T>(squares[c] / rows);
  }
}

template <class T>
void batch_norm_apply(const Stripes& stripes, const ChannelMap<T>& map, const T* x,
                      const T* residual, T* y) {
  const auto loop = residual ? (map.relu ? apply<T, true, true> : apply<T, false, true>)
                             : (map.relu ? apply<T, true, false> : apply<T, false, false>);
  for_each_chunk(stripes, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    loop(stripes.width, end - begin, map.mean.data(), map.scale.data(), map.bias.data(), x + begin,
         from(residual, begin), y + begin);
  });
}

template <class T>
void batch_norm_backward_sums(const Stripes& stripes, const ChannelMap<T>& map, const T* x,
                              const T* residual, const T* grad_y, T* sum_g, T* sum_gx) {
  ChunkSums<T> sums(stripes);
  const auto loop = residual   ? sum_gradients<T, true, true>
                    : map.relu ? sum_gradients<T, true, false>
                               : sum_gradients<T, false, false>;
  for_each_chunk(stripes, [&](std::int64_t k, std::int64_t begin, std::int64_t end) {
    loop(stripes.width, end - begin, map.mean.data(), map.scale.data(), map.bias.data(), x + begin,
         from(residual, begin), grad_y + begin, sums.first(k), sums.second(k));
  });
  const auto total = [&](const auto& part, T* result) {
    const std::vector<double> channels = total_per_channel(
        stripes, [&](std::int64_t k, std::int64_t j) { return static_cast<double>(part(k)[j]); });
    std::ranges::transform(channels, result, [](double value) { return static_cast<T>(value); });
  };
  total([&](std::int64_t k) { return sums.first(k); }, sum_g);
  total([&](std::int64_t k) { return sums.second(k); }, sum_gx);
}

template <class T>
void batch_norm_backward_apply(const Stripes& stripes, const ChannelMap<T>& map,
                               const std::vector<T>& slope, const std::vector<T>& constant,
                               const T* x, const T* residual, const T* grad_y, T* grad_x,
                               T* grad_residual) {
  const auto choose = [&]<bool kMoments>() {
    return residual   ? backward_apply<T, kMoments, true, true>
           : map.relu ? backward_apply<T, kMoments, true, false>
                      : backward_apply<T, kMoments, false, false>;
  };
  const auto loop =
      slope.empty() ? choose.template operator()<false>() : choose.template operator()<true>();
  for_each_chunk(stripes, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    loop(stripes.width, end - begin, map.mean.data(), map.scale.data(), map.bias.data(),
         slope.data(), constant.data(), x + begin, from(residual, begin), grad_y + begin,
         grad_x + begin, from(grad_residual, begin));
  });
}

#define RINGRAD_INSTANTIATE(T)                                                                     \
  template std::vector<T> repeat(const Stripes&, const std::vector<T>&);                           \
  template void batch_norm_moments(const Stripes&, const T*, T*, T*);                              \
  template void batch_norm_apply(const Stripes&, const ChannelMap<T>&, const T*, const T*, T*);    \
  template void batch_norm_backward_sums(const Stripes&, const ChannelMap<T>&, const T*, const T*, \
                                         const T*, T*, T*);                                        \
  template void batch_norm_backward_apply(const Stripes&, const ChannelMap<T>&,                    \
                                          const std::vector<T>&, const std::vector<T>&, const T*,  \
                                          const T*, const T*, T*, T*);
RINGRAD_INSTANTIATE(float)
RINGRAD_INSTANTIATE(double)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cpu
