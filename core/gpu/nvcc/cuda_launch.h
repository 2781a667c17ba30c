// launch() for real devices; sim/device/launch.h is its counterpart for simulated ones.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace ringrad {

/// How a kernel is launched. `name` is for reports and timelines. sim/device/launch.h has
/// the same.
struct LaunchConfig {
  const char* name;
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;  ///< all blocks at the same time, so that they may wait for each other
  double flops = 0;          ///< of the whole kernel; for the timeline of simulated devices
  double bytes = 0;          ///< that the whole kernel moves; likewise
};

/// Queues `kernel(arguments...)` on config.stream. The arguments are converted to the kernel's
/// parameter types and copied.
template <class... Parameters, class... Arguments>
cudaError_t launch(const LaunchConfig& config, void (*kernel)(Parameters...),
                   Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((!std::is_reference_v<Parameters> && ...));
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = config.dynamic_shared_bytes;
  launch_config.stream = config.stream;
  launch_config.attrs = &cooperative;
  launch_config.numAttrs = config.cooperative ? 1 : 0;
  return cudaLaunchKernelEx(&launch_config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace ringrad

#define RINGRAD_SHARED(type, name, ...) __shared__ type name __VA_ARGS__

#define RINGRAD_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char ringrad_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(ringrad_dynamic_shared)
