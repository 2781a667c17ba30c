#include "ringrad/kernels/norm/rms_norm_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/norm/row_sums.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

using row_norm::sum_over;

constexpr std::int64_t kGrain = 1 << 14;  // elements per piece

template <class T>
RINGRAD_CLONES void normalize_row(std::int64_t C, T eps, const T* __restrict x,
                                  const T* __restrict weight, T* __restrict y, T* rstd) {
  const T squares = sum_over<T>(C, [=](std::int64_t c) { return x[c] * x[c]; });
  const T scale = 1 / std::sqrt(squares / static_cast<T>(C) + eps);
  if (weight)
    for (std::int64_t c = 0; c < C; ++c) y[c] = x[c] * scale * weight[c];
  else
    for (std::int64_t c = 0; c < C; ++c) y[c] = x[c] * scale;
  *rstd = scale;
}

// grad_x of one row; adds the row's share to grad_weight.
template <class T>
RINGRAD_CLONES void backward_row(std::int64_t C, const T* __restrict x, const T* __restrict weight,
                                 T rstd, const T* __restrict grad_y, T* __restrict grad_x,
                                 T* __restrict grad_weight) {
  const auto xhat = [=](std::int64_t c) { return x[c] * rstd; };
  const auto g = [=](std::int64_t c) { return weight ? grad_y[c] * weight[c] : grad_y[c]; };
  const T mean_gx =
      sum_over<T>(C, [=](std::int64_t c) { return g(c) * xhat(c); }) / static_cast<T>(C);
#pragma omp simd
  for (std::int64_t c = 0; c < C; ++c) {
    grad_x[c] = rstd * (g(c) - xhat(c) * mean_gx);
    grad_weight[c] += grad_y[c] * xhat(c);
  }
}

}  // namespace

template <class T>
void rms_norm(std::int64_t rows, std::int64_t C, T eps, const T* x, const T* weight, T* y,
              T* rstd) {
  parallel_for(rows, 1 + kGrain / C, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      normalize_row(C, eps, x + row * C, weight, y + row * C, rstd + row);
  });
}

template <class T>
void rms_norm_backward(std::int64_t rows, std::int64_t C, const T* x, const T* weight,
                       const T* rstd, const T* grad_y, T* grad_x, T* grad_weight) {
  // Chunks have their own sums and are combined in order, so the result does not depend on the
  // number of threads. With at least 64 rows per sum, the sums are small compared with the data.
  const std::int64_t chunk = std::max<std::int64_t>(64, kGrain / C);
  const std::int64_t chunks = (rows + chunk - 1) / chunk;
  std::vector<T> sums(static_cast<std::size_t>(chunks * C), T{0});
  parallel_for(chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k)
      for (std::int64_t row = k * chunk; row < std::min(rows, (k + 1) * chunk); ++row)
        backward_row(C, x + row * C, weight, rstd[row], grad_y + row * C, grad_x + row * C,
                     sums.data() + k * C);
  });
  std::fill_n(grad_weight, C, T{0});
  for (std::int64_t k = 0; k < chunks; ++k)
    for (std::int64_t c = 0; c < C; ++c)
      grad_weight[c] += sums[static_cast<std::size_t>(k * C + c)];
}

#define RINGRAD_INSTANTIATE(T)                                                              \
  template void rms_norm(std::int64_t, std::int64_t, T, const T*, const T*, T*, T*);        \
  template void rms_norm_backward(std::int64_t, std::int64_t, const T*, const T*, const T*, \
                                  const T*, T*, T*);
RINGRAD_INSTANTIATE(float)
RINGRAD_INSTANTIATE(double)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cpu
