// The vocabulary of kernels: CUDA's qualifiers, indices and barriers; warp.h, atomic.h and
// device_math.h have the rest. Other features do not compile, so kernels stay within what can be
// simulated.
//
// A kernel that waits for other blocks must call __nanosleep() in each round of its loop: only then
// do other blocks run.
//
// Stricter than hardware, on purpose: a thread that has returned does not take part in a barrier,
// so a barrier after `if (i >= n) return;` is an error; and __activemask() returns the lanes that
// have not returned, not those that happen to be together.

#pragma once

#include <cstddef>

#include "ringrad/sim/device/indices.h"
#include "ringrad/sim/device/site.h"
#include "ringrad/sim/device/vector_types.h"

// --- Qualifiers: all code is host code, and all memory one address space -------------------------

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

// --- Behind the intrinsics: the calls that reach the running block -------------------------------

namespace ringrad::sim::device {

int barrier(bool vote, const char* operation, Site site);
void spin(Site site);
[[noreturn]] void trap(Site site);
void* shared_array(const void* declaration, std::size_t bytes, std::size_t alignment);
void* dynamic_shared();
void fence();

}  // namespace ringrad::sim::device

// --- Barriers and fences -------------------------------------------------------------------------

inline void __syncthreads(ringrad::sim::Site site = ringrad::sim::Site::here()) {
  ringrad::sim::device::barrier(false, "__syncthreads()", site);
}
inline int __syncthreads_count(int predicate,
                               ringrad::sim::Site site = ringrad::sim::Site::here()) {
  return ringrad::sim::device::barrier(predicate, "__syncthreads_count()", site);
}
inline int __syncthreads_or(int predicate, ringrad::sim::Site site = ringrad::sim::Site::here()) {
  return ringrad::sim::device::barrier(predicate, "__syncthreads_or()", site) > 0;
}
inline int __syncthreads_and(int predicate, ringrad::sim::Site site = ringrad::sim::Site::here()) {
  return ringrad::sim::device::barrier(!predicate, "__syncthreads_and()", site) == 0;
}

inline void __threadfence_block() { ringrad::sim::device::fence(); }
inline void __threadfence() { ringrad::sim::device::fence(); }
inline void __threadfence_system() { ringrad::sim::device::fence(); }

// --- Waiting and stopping ------------------------------------------------------------------------

inline void __nanosleep(unsigned, ringrad::sim::Site site = ringrad::sim::Site::here()) {
  ringrad::sim::device::spin(site);
}
[[noreturn]] inline void __trap(ringrad::sim::Site site = ringrad::sim::Site::here()) {
  ringrad::sim::device::trap(site);
}
