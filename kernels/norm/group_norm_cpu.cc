// One group of one example at a time, while it is in cache.

#include "ringrad/kernels/norm/group_norm_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // elements per piece

// As in layer_norm_cpu.cc, the compiler chooses the order of the sums, the same in every run; and
// `shift` is the part of the mean that rounding took from the centre.

// weight and bias: those of the group's K channels, or null.
template <class T>
RINGRAD_CLONES void normalize_group(std::int64_t K, std::int64_t S, T eps, const T* __restrict x,
                                    const T* __restrict weight, const T* __restrict bias,
                                    T* __restrict y, T* mean, T* rstd) {
  const std::int64_t size = K * S;
  const T n = static_cast<T>(size);
  T sum = 0, distances = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += x[i];
  const T centre = sum / n;
#pragma omp simd reduction(+ : distances, squares)
  for (std::int64_t i = 0; i < size; ++i) {
    const T distance = x[i] - centre;
    distances += distance;
    squares += distance * distance;
  }
  const T shift = distances / n;
  *mean = centre + shift;
  *rstd = 1 / std::sqrt(std::max(squares / n - shift * shift, T{0}) + eps);
  for (std::int64_t k = 0; k < K; ++k) {
    const T scale = weight ? *rstd * weight[k] : *rstd;
    const T offset = (bias ? bias[k] : T{0}) - shift * scale;
    const T* __restrict from = x + k * S;
    T* __restrict to = y + k * S;
    for (std::int64_t s = 0; s < S; ++s) to[s] = (from[s] - centre) * scale + offset;
  }
}

// grad_x of one group; sum_g and sum_gx: each channel's sums of grad_y and of grad_y * xhat.
template <class T>
RINGRAD_CLONES void backward_group(std::int64_t K, std::int64_t S, const T* __restrict x,
                                   const T* __restrict weight, T mean, T rstd,
                                   const T* __restrict grad_y, T* __restrict grad_x,
                                   T* __restrict sum_g, T* __restrict sum_gx) {
  T mean_g = 0, mean_gx = 0;
  for (std::int64_t k = 0; k < K; ++k) {
    const T* __restrict g = grad_y + k * S, * __restrict from = x + k * S;
    T total = 0, product = 0;
#pragma omp simd reduction(+ : total, product)
    for (std::int64_t s = 0; s < S; ++s) {
      total += g[s];
      product += g[s] * (from[s] - mean);
    }
    sum_g[k] = total;
    sum_gx[k] = product * rstd;
    mean_g += weight ? weight[k] * sum_g[k] : sum_g[k];
    mean_gx += weight ? weight[k] * sum_gx[k] : sum_gx[k];
  }
  mean_g /= static_cast<T>(K * S);
  mean_gx /= static_cast<T>(K * S);
  const T slope = -rstd * rstd * mean_gx, constant = -rstd * mean_g;
  for (std::int64_t k = 0; k < K; ++k) {
    const T* __restrict g = grad_y + k * S, * __restrict from = x + k * S;
    T* __restrict to = grad_x + k * S;
    const T scale = weight ? rstd * weight[k] : rstd;
    for (std::int64_t s = 0; s < S; ++s)
      to[s] = scale * g[s] + (slope * (from[s] - mean) + constant);
  }
}

// Calls body(row, its first element, its first channel) for each group of each example.
template <class Body>
void for_each_group(const Groups& groups, Body body) {
  const std::int64_t size = groups.K * groups.S;
  parallel_for(groups.B * groups.G, 1 + kGrain / size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      body(row, row * size, row % groups.G * groups.K);
  });
}

}  // namespace

template <class T>
void group_norm(const Groups& groups, T eps, const T* x, const T* weight, const T* bias, T* y,
                T* mean, T* rstd) {
  for_each_group(groups, [&](std::int64_t row, std::int64_t at, std::int64_t channel) {
    normalize_group(groups.K, groups.S, eps, x + at, weight ? weight + channel : nullptr,
                    bias ? bias + channel : nullptr, y + at, mean + row, rstd + row);
  });
}

template <class T>
void group_norm_backward(const Groups& groups, const T* x, const T* weight, const T* mean,
                         const T* rstd, const T* grad_y, T* grad_x, T* grad_weight, T* grad_bias) {
  const std::int64_t C = groups.G * groups.K;
  std::vector<T> sum_g(static_cast<std::size_t>(groups.B * C)), sum_gx(sum_g.size());
  for_each_group(groups, [&](std::int64_t row, std::int64_t at, std::int64_t channel) {
    backward_group(groups.K, groups.S, x + at, weight ? weight + channel : nullptr, mean[row],
                   rstd[row], grad_y + at, grad_x + at, sum_g.data() + row * groups.K,
                   sum_gx.data() + row * groups.K);
  });
  std::fill_n(grad_weight, C, T{0});
  std::fill_n(grad_bias, C, T{0});
  for (std::int64_t b = 0; b < groups.B; ++b)
    for (std::int64_t c = 0; c < C; ++c) {
      grad_weight[c] += sum_gx[static_cast<std::size_t>(b * C + c)];
      grad_bias[c] += sum_g[static_cast<std::size_t>(b * C + c)];
    }
}

#define RINGRAD_INSTANTIATE(T)                                                             \
  template void group_norm(const Groups&, T, const T*, const T*, const T*, T*, T*, T*);    \
  template void group_norm_backward(const Groups&, const T*, const T*, const T*, const T*, \
                                    const T*, T*, T*, T*);
RINGRAD_INSTANTIATE(float)
RINGRAD_INSTANTIATE(double)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cpu
