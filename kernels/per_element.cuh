// A thread per element: how such a kernel is launched, and which elements a thread visits.
//
//     __global__ void square(std::int64_t n, const float* x, float* y) {
//       for (const std::int64_t i : own_elements(n)) y[i] = x[i] * x[i];
//     }
//
//     launch_on(device, thread_per_element("square", n), where, square, n, x, y);

#pragma once

#include <cstdint>

#include "ringrad/core/gpu/launch.h"

namespace ringrad::kernels::cuda {

inline constexpr int kElementThreads = 256;

/// REQUIRES: 0 < n
inline LaunchConfig thread_per_element(const char* name, std::int64_t n, double bytes = 0) {
  return {.name = name,
          .grid = num_blocks(n, kElementThreads),
          .block = kElementThreads,
          .bytes = bytes};
}

/// The elements i, i + step, i + 2 step ... below n, where i is this thread's number in the grid
/// and step the number of its threads.
struct OwnElements {
  std::int64_t first, step, n;

  struct Iterator {
    std::int64_t i, step;
    __device__ std::int64_t operator*() const { return i; }
    __device__ void operator++() { i += step; }
    __device__ bool operator!=(std::int64_t end) const { return i < end; }
  };
  __device__ Iterator begin() const { return {first, step}; }
  __device__ std::int64_t end() const { return n; }
};

__device__ inline OwnElements own_elements(std::int64_t n) {
  return {std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, std::int64_t{gridDim.x} * blockDim.x,
          n};
}

}  // namespace ringrad::kernels::cuda
