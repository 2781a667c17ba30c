// Sums over a row, with enough partial sums that an addition need not wait for the one before it.
// Their order is fixed: it depends on neither the vectors of the machine nor the threads. Private
// to kernels/norm; inlined into callers marked RINGRAD_CLONES.

#pragma once

#include <cstdint>
#include <utility>

namespace ringrad::kernels::row_norm_sums {

/// The sums of f(c) and of g(c) over c < C.
template <class T, class F, class G>
[[gnu::always_inline]] inline std::pair<T, T> sums_over(std::int64_t C, F f, G g) {
  constexpr std::int64_t kLanes = 256 / sizeof(T);  // four of AVX-512's vectors
  T lanes_f[kLanes] = {}, lanes_g[kLanes] = {};
  std::int64_t c = 0;
  for (; c + kLanes <= C; c += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) {
      lanes_f[l] += f(c + l);
      lanes_g[l] += g(c + l);
    }
  for (std::int64_t l = 0; c < C; ++c, ++l) {
    lanes_f[l] += f(c);
    lanes_g[l] += g(c);
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t l = 0; l < half; ++l) {
      lanes_f[l] += lanes_f[l + half];
      lanes_g[l] += lanes_g[l + half];
    }
  return {lanes_f[0], lanes_g[0]};
}

/// The sum of f(c) over c < C.
template <class T, class F>
[[gnu::always_inline]] inline T sum_over(std::int64_t C, F f) {
  return sums_over<T>(C, f, [](std::int64_t) { return T{0}; }).first;
}

}  // namespace ringrad::kernels::row_norm_sums
