// A tile of a matrix product, held in registers while it sums over K.
//
//                        b: V vectors wide
//                      +---------+---------+
//                    p |  load   |  load   |          one step p of K:
//                      +---------+---------+          R broadcasts, V loads,
//        a      p                                     R * V multiply-adds
//      +-----------+   +---------+---------+
//   R  |   bcast   |   | acc     | acc     |
//      |   bcast   |   | acc     | acc     |          8 x 2 vectors of 64 bytes keep 16 of
//      +-----------+   +---------+---------+          AVX-512's 32 registers busy
//
// Call it from a function marked RINGRAD_CLONES: the vectors are 64 bytes in the source, and each
// copy of the caller splits them into vectors of its instruction set.

#pragma once

#include <cstdint>

namespace ringrad::kernels {

/// 64 bytes of T, at any address aligned for T.
template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = 64 / sizeof(T);

  static type& at(T* address) { return *reinterpret_cast<type*>(address); }
  static const type& at(const T* address) { return *reinterpret_cast<const type*>(address); }
};

/// Element (i, p) of an operand is data[i * row + p * step].
template <class T>
struct Operand {
  const T* data;
  std::int64_t row, step;
};

/// c[i, :] = (kAccumulate ? c[i, :] : 0) + sum over p < K of a(i, p) * b[p, :] for i < R. All rows
/// are V vectors wide; rows of b are b_step apart, rows of c are c_row apart.
template <class T, int R, int V, bool kAccumulate>
[[gnu::always_inline]] inline void multiply_tile(std::int64_t K, Operand<T> a, const T* b,
                                                 std::int64_t b_step, T* c, std::int64_t c_row) {
  using Vec = Vector<T>;
  constexpr int kLanes = Vec::kLanes;
  typename Vec::type sum[R][V] = {};
  if constexpr (kAccumulate) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[i][v] = Vec::at(c + i * c_row + v * kLanes);
  }
  for (std::int64_t p = 0; p < K; ++p) {
    typename Vec::type right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) right[v] = Vec::at(b + p * b_step + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const T left = a.data[i * a.row + p * a.step];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[i][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) Vec::at(c + i * c_row + v * kLanes) = sum[i][v];
}

}  // namespace ringrad::kernels
