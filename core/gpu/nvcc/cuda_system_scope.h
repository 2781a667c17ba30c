// Functions for kernels that wait for other devices or for the host.
// sim/include/cuda_system_scope.h is the counterpart for simulated devices, and documents each
// function.

#pragma once

#include <cstdint>

namespace ringrad {

#if defined(__CUDACC__)
__device__ inline void store_release_system(std::uint64_t* p, std::uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}

__device__ inline void store_release_system(unsigned* p, unsigned value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}

__device__ inline std::uint64_t load_acquire_system(const std::uint64_t* p) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}

__device__ inline std::uint64_t global_time_ns() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
#endif

}  // namespace ringrad
