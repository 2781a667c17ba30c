// launch() for real devices; sim/launch.h is its counterpart for simulated ones.

#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "sim/launch_config.h"

namespace ringrad {

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
