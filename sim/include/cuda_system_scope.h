// Operations for kernels that wait for other devices or for the host;
// core/gpu/nvcc/cuda_system_scope.h has them for real devices.

#pragma once

#include <chrono>
#include <cstdint>
#include <type_traits>

#include "ringrad/sim/device/atomic.h"

namespace ringrad {

/// Stores with release order. A thread on any device that sees the value with load_acquire_system
/// also sees all earlier writes of this thread, and those of its block before a barrier.
template <class T>
void store_release_system(T* p, std::type_identity_t<T> value) {
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
  sim::device::note_progress();
}

template <class T>
T load_acquire_system(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/// A clock that all devices share, in ns.
inline std::uint64_t global_time_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

}  // namespace ringrad
