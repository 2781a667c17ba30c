// The extents of one attention, and which keys each query may attend to: what the kernels for CPUs
// and for GPUs share. Private to kernels/.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>

#include "ringrad/kernels/problem/attention_options.h"

namespace ringrad::kernels {

/// A score, or what a mask adds to it, as a power of two. Finite numbers stay finite: masks may
/// hold the lowest number in place of -inf, and a row that holds it for every key gives the mean of
/// all values.
template <class M>
constexpr M as_power_of_two(M score) {
  constexpr M kLargest = std::numeric_limits<M>::max();
  const M x = score * std::numbers::log2e_v<M>;
  return score >= -kLargest && score <= kLargest ? std::clamp(x, -kLargest, kLargest) : x;
}

/// [begin, end) of positions.
struct AttentionRange {
  std::int64_t begin, end;
};

struct AttentionProblem {
  std::int64_t B, H, Hkv, T, S, D, Dv;
  double scale;
  bool causal;
  std::int64_t shift;   ///< position of query 0 among the keys
  std::int64_t window;  ///< at most T + S, so that sums with positions fit; 0: unlimited

  /// Queries that share a head of keys. REQUIRES: Hkv > 0 (a test would cost kernels registers)
  constexpr std::int64_t group() const { return H / Hkv; }

  /// The keys that query t may attend to by causality and window; the mask may exclude more.
  constexpr AttentionRange keys_of(std::int64_t t) const {
    const std::int64_t position = t + shift;
    const std::int64_t begin = window > 0 ? position - window + 1 : 0;
    const std::int64_t end = causal ? position + 1 : window > 0 ? position + window : S;
    return clipped(begin, end, S);
  }
  /// The queries that may attend to key s.
  constexpr AttentionRange queries_of(std::int64_t s) const {
    const std::int64_t t = s - shift;
    const std::int64_t begin = causal ? t : window > 0 ? t - window + 1 : 0;
    const std::int64_t end = window > 0 ? t + window : T;
    return clipped(begin, end, T);
  }

 private:
  static constexpr AttentionRange clipped(std::int64_t begin, std::int64_t end, std::int64_t size) {
    const std::int64_t from = std::clamp<std::int64_t>(begin, 0, size);
    return {from, std::clamp(end, from, size)};
  }
};

}  // namespace ringrad::kernels
