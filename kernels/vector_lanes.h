// Lanes of vectors (register_tile.h) exchanged among vectors: sums and transposes without memory.
//
//     v[0]  a a a a                        a b c d
//     v[1]  b b b b    transpose_square    a b c d      sum_each: lane i of v[0] is the sum of the
//     v[2]  c c c c    --------------->    a b c d      lanes of v[i], in half the steps
//     v[3]  d d d d                        a b c d
//
// All functions here are inlined into callers marked RINGRAD_CLONES.

#pragma once

#include <cstdint>
#include <type_traits>

#include "ringrad/kernels/register_tile.h"

namespace ringrad::kernels {

/// Exchanges the lanes of a whose number has the bit `half` with those of b whose number lacks it.
template <class M>
[[gnu::always_inline]] inline void exchange_lanes(int half, typename Vector<M>::type& a,
                                                  typename Vector<M>::type& b) {
  constexpr int kCount = Vector<M>::kLanes;
  const typename Vector<M>::type old_a = a;
#ifdef __clang__  // its shuffle takes constants only
  for (int lane = 0; lane < kCount; ++lane)
    if (lane & half) a[lane] = b[lane - half];
  for (int lane = 0; lane < kCount; ++lane)
    if (!(lane & half)) b[lane] = old_a[lane + half];
#else
  using Int = std::conditional_t<std::is_same_v<M, double>, std::int64_t, std::int32_t>;
  typedef Int Ints __attribute__((vector_size(64)));
  Ints to_a{}, to_b{};  // lanes of (a, b)
  for (int lane = 0; lane < kCount; ++lane) {
    to_a[lane] = lane & half ? kCount + lane - half : lane;
    to_b[lane] = lane & half ? kCount + lane : lane + half;
  }
  a = __builtin_shuffle(old_a, b, to_a);
  b = __builtin_shuffle(old_a, b, to_b);
#endif
}

/// Makes lane j of vector i lane i of vector j.
template <class M>
[[gnu::always_inline]] inline void transpose_square(
    typename Vector<M>::type (&v)[Vector<M>::kLanes]) {
#pragma GCC unroll 4
  for (int half = Vector<M>::kLanes / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < Vector<M>::kLanes; ++i)
      if (!(i & half)) exchange_lanes<M>(half, v[i], v[i + half]);
}

/// Lane i of v[0] becomes the sum of the lanes of v[i]; the other vectors are overwritten.
template <class M>
[[gnu::always_inline]] inline void sum_each(typename Vector<M>::type (&v)[Vector<M>::kLanes]) {
#pragma GCC unroll 4
  for (int half = Vector<M>::kLanes / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {
      exchange_lanes<M>(half, v[i], v[i + half]);
      v[i] += v[i + half];
    }
}

}  // namespace ringrad::kernels
