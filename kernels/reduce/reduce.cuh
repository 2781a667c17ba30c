// Reduces the values of the threads of a warp or block to one. Private to kernels/*_cuda.cu.
//
// The order of merging is fixed by the layout, so results do not vary from run to run. All threads
// get the result: in each step, a lane exchanges values with the lane whose number differs in one
// bit.
//
//     lane    0 1 2 3 4 5 6 7         first with the lane 16 away, then 8, 4, 2, 1
//             |_______|
//               |_______|

#pragma once

#include <cstdint>
#include <cstring>

#include "ringrad/core/gpu/cuda.h"

namespace ringrad::kernels::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = ~0u;

/// `value` from the lane whose number differs by `lanes`, for any trivially copyable type.
template <class T>
__device__ T shuffle_xor(T value, int lanes) {
  if constexpr (sizeof(T) <= 4) {
    return __shfl_xor_sync(kAllLanes, value, lanes);
  } else {
    static_assert(sizeof(T) % 4 == 0);
    std::uint32_t words[sizeof(T) / 4];
    std::memcpy(words, &value, sizeof value);
    for (std::uint32_t& word : words) word = __shfl_xor_sync(kAllLanes, word, lanes);
    std::memcpy(&value, words, sizeof value);
    return value;
  }
}

/// merge(a, b) over the values of kLanes neighbouring lanes, a power of two. All lanes of the warp
/// must take part; each gets the result of its group.
template <int kLanes = kWarp, class T, class Merge>
__device__ T warp_reduce(T value, Merge merge) {
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2)
    value = merge(value, shuffle_xor(value, lanes));
  return value;
}

/// merge(a, b) over the values of a one-dimensional block of kThreads threads. All threads must
/// take part, and all get the result. `shared` may be reused at once.
///
/// REQUIRES: kThreads is a multiple of 32, at most 1024
template <int kThreads, class T, class Merge>
__device__ T block_reduce(T value, Merge merge, T (&shared)[kThreads / kWarp]) {
  value = warp_reduce(value, merge);
  if constexpr (kThreads == kWarp) return value;
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();  // one value per warp is written
  value = shared[0];
  for (unsigned warp = 1; warp < kThreads / kWarp; ++warp) value = merge(value, shared[warp]);
  __syncthreads();  // all have read, so that the next call may write
  return value;
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// Two sums that go through one reduction.
template <class T>
struct Pair {
  T first, second;

  constexpr Pair operator+(const Pair& other) const {
    return {first + other.first, second + other.second};
  }
};

}  // namespace ringrad::kernels::cuda
