// What kernels that wait for other devices, or for the host, need; core/nvcc/cuda_system_scope.h has it for
// real devices.

#pragma once

#include <chrono>
#include <cstdint>

#include "sim/atomic.h"

namespace ringrad {

/// Stores after everything this thread, or its block before a barrier, has written: whoever sees the value with
/// load_acquire_system sees that too, on whatever device.
template <class T>
void store_release_system(T* p, T value) {
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
