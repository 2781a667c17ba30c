// One group of one example at a time, while it is in cache.

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/norm/norm_cpu.h"
#include "ringrad/kernels/norm/row_sums.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // elements per piece

// As in row_norm_cpu.cc, `shift` is the part of the mean that rounding took from the centre. A
// group may be large, so sums of kBlock elements are added in float64. The order of a sum of fewer
// than kFew is the compiler's, the same in every run: it is faster than the fixed one.
constexpr std::int64_t kBlock = 1024, kFew = 256;

// The sums of f(i) and of g(i) over i < size.
template <class T, class F, class G>
[[gnu::always_inline]] inline std::pair<double, double> sums_by_blocks(std::int64_t size, F f,
                                                                       G g) {
  double sum_f = 0, sum_g = 0;
  for (std::int64_t begin = 0; begin < size; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, size - begin);
    T a = 0, b = 0;
    if (count < kFew) {
#pragma omp simd reduction(+ : a, b)
      for (std::int64_t i = begin; i < begin + count; ++i) {
        a += f(i);
        b += g(i);
      }
    } else {
      std::tie(a, b) = row_norm_sums::sums_over<T>(
          count, [&](std::int64_t i) { return f(begin + i); },
          [&](std::int64_t i) { return g(begin + i); });
    }
    sum_f += static_cast<double>(a);
    sum_g += static_cast<double>(b);
  }
  return {sum_f, sum_g};
}

// weight and bias: those of the group's K channels, or null.
template <class T>
RINGRAD_CLONES void normalize_group(std::int64_t K, std::int64_t S, T eps, const T* __restrict x,
                                    const T* __restrict weight, const T* __restrict bias,
                                    T* __restrict y, T* mean, T* rstd) {
  const std::int64_t size = K * S;
  const auto n = static_cast<double>(size);
  const double sum =
      sums_by_blocks<T>(
          size, [&](std::int64_t i) { return x[i]; }, [](std::int64_t) { return T{0}; })
          .first;
  const T centre = static_cast<T>(sum / n);
  const auto [distances, squares] = sums_by_blocks<T>(
      size, [&](std::int64_t i) { return x[i] - centre; },
      [&](std::int64_t i) { return (x[i] - centre) * (x[i] - centre); });
  const T shift = static_cast<T>(distances / n);
  *mean = centre + shift;
  *rstd = 1 / std::sqrt(std::max(static_cast<T>(squares / n) - shift * shift, T{0}) + eps);
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
  double total_g = 0, total_gx = 0;  // of the group
  for (std::int64_t k = 0; k < K; ++k) {
    const T* __restrict g = grad_y + k * S, * __restrict from = x + k * S;
    const auto [total, product] = sums_by_blocks<T>(
        S, [&](std::int64_t s) { return g[s]; },
        [&](std::int64_t s) { return g[s] * (from[s] - mean); });
    sum_g[k] = static_cast<T>(total);
    sum_gx[k] = static_cast<T>(product) * rstd;
    total_g += weight ? weight[k] * sum_g[k] : sum_g[k];
    total_gx += weight ? weight[k] * sum_gx[k] : sum_gx[k];
  }
  const auto n = static_cast<double>(K * S);
  const T mean_g = static_cast<T>(total_g / n), mean_gx = static_cast<T>(total_gx / n);
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
  for (std::int64_t c = 0; c < C; ++c) {
    double of_weight = 0, of_bias = 0;
    for (std::int64_t b = 0; b < groups.B; ++b) {
      of_weight += sum_gx[static_cast<std::size_t>(b * C + c)];
      of_bias += sum_g[static_cast<std::size_t>(b * C + c)];
    }
    grad_weight[c] = static_cast<T>(of_weight);
    grad_bias[c] = static_cast<T>(of_bias);
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
