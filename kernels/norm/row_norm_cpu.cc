#include <algorithm>
#include <cmath>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/norm/norm_cpu.h"
#include "ringrad/kernels/norm/row_sums.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

using row_norm_sums::sum_over;
using row_norm_sums::sums_over;

constexpr std::int64_t kGrain = 1 << 14;  // elements per piece

template <bool kCentred, class T>
RINGRAD_CLONES void normalize_row(std::int64_t C, T eps, const T* __restrict x,
                                  const T* __restrict weight, const T* __restrict bias,
                                  T* __restrict y, T* mean, T* rstd) {
  const T n = static_cast<T>(C);
  T centre = 0, shift = 0, variance = 0;
  if constexpr (kCentred) {
    // Because of rounding, the computed centre differs from the mean, by many deviations if the
    // mean is large. The distances from the centre are exact, and their own mean, `shift`, is the
    // missing correction.
    centre = sum_over<T>(C, [=](std::int64_t c) { return x[c]; }) / n;
    const auto [distances, squares] = sums_over<T>(
        C, [=](std::int64_t c) { return x[c] - centre; },
        [=](std::int64_t c) { return (x[c] - centre) * (x[c] - centre); });
    shift = distances / n;
    variance = std::max(squares / n - shift * shift, T{0});
    *mean = centre + shift;
  } else {
    variance = sum_over<T>(C, [=](std::int64_t c) { return x[c] * x[c]; }) / n;
  }
  const T scale = 1 / std::sqrt(variance + eps), offset = -shift * scale;
  *rstd = scale;
  const auto xhat = [=](std::int64_t c) {
    return kCentred ? (x[c] - centre) * scale + offset : x[c] * scale;
  };
  if (weight && bias) {
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) y[c] = xhat(c) * weight[c] + bias[c];
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) y[c] = weight ? xhat(c) * weight[c] : xhat(c);
    if (bias)
      for (std::int64_t c = 0; c < C; ++c) y[c] += bias[c];
  }
}

// grad_x of one row; adds the row's share to grad_weight and grad_bias.
template <bool kCentred, class T>
RINGRAD_CLONES void backward_row(std::int64_t C, const T* __restrict x, const T* __restrict weight,
                                 T mean, T rstd, const T* __restrict grad_y, T* __restrict grad_x,
                                 T* __restrict grad_weight, T* __restrict grad_bias) {
  const auto xhat = [=](std::int64_t c) { return (kCentred ? x[c] - mean : x[c]) * rstd; };
  const auto g = [=](std::int64_t c) { return weight ? grad_y[c] * weight[c] : grad_y[c]; };
  const auto [sum_g, sum_gx] = sums_over<T>(
      C, [=](std::int64_t c) { return kCentred ? g(c) : T{0}; },
      [=](std::int64_t c) { return g(c) * xhat(c); });
  const T mean_g = sum_g / static_cast<T>(C), mean_gx = sum_gx / static_cast<T>(C);
#pragma omp simd
  for (std::int64_t c = 0; c < C; ++c) {
    grad_x[c] = rstd * ((kCentred ? g(c) - mean_g : g(c)) - xhat(c) * mean_gx);
    grad_weight[c] += grad_y[c] * xhat(c);
    if constexpr (kCentred) grad_bias[c] += grad_y[c];
  }
}

}  // namespace

template <bool kCentred, class T>
void row_norm(std::int64_t rows, std::int64_t C, T eps, const T* x, const T* weight, const T* bias,
              T* y, T* mean, T* rstd) {
  parallel_for(rows, 1 + kGrain / C, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      normalize_row<kCentred>(C, eps, x + row * C, weight, bias, y + row * C,
                              kCentred ? mean + row : nullptr, rstd + row);
  });
}

template <bool kCentred, class T>
void row_norm_backward(std::int64_t rows, std::int64_t C, const T* x, const T* weight,
                       const T* mean, const T* rstd, const T* grad_y, T* grad_x, T* grad_weight,
                       T* grad_bias) {
  // Chunks have their own sums and are combined in order, so the result does not depend on the
  // number of threads. With at least 64 rows per sum, the sums are small compared with the data.
  const std::int64_t chunk = std::max<std::int64_t>(64, kGrain / C);
  const std::int64_t chunks = (rows + chunk - 1) / chunk, width = kCentred ? 2 * C : C;
  std::vector<T> sums(static_cast<std::size_t>(chunks * width), T{0});
  parallel_for(chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k) {
      T* weight_sum = sums.data() + k * width;
      for (std::int64_t row = k * chunk; row < std::min(rows, (k + 1) * chunk); ++row)
        backward_row<kCentred>(C, x + row * C, weight, kCentred ? mean[row] : T{0}, rstd[row],
                               grad_y + row * C, grad_x + row * C, weight_sum,
                               kCentred ? weight_sum + C : nullptr);
    }
  });
  const auto add_chunks = [&](T* total, const T* first) {
    std::fill_n(total, C, T{0});
    for (std::int64_t k = 0; k < chunks; ++k)
      for (std::int64_t c = 0; c < C; ++c) total[c] += first[k * width + c];
  };
  add_chunks(grad_weight, sums.data());
  if constexpr (kCentred) add_chunks(grad_bias, sums.data() + C);
}

#define RINGRAD_INSTANTIATE(kCentred, T)                                                        \
  template void row_norm<kCentred>(std::int64_t, std::int64_t, T, const T*, const T*, const T*, \
                                   T*, T*, T*);                                                 \
  template void row_norm_backward<kCentred>(std::int64_t, std::int64_t, const T*, const T*,     \
                                            const T*, const T*, const T*, T*, T*, T*);
RINGRAD_INSTANTIATE(true, float)
RINGRAD_INSTANTIATE(true, double)
RINGRAD_INSTANTIATE(false, float)
RINGRAD_INSTANTIATE(false, double)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cpu
