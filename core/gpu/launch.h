// launch_on(): starts a kernel on a device's current stream and turns its errors into exceptions.
//
//     launch_on(x.device(), {"add", blocks, kThreads}, where, add, a, b, y, n);

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {

/// Throws CudaError, naming the kernel, if it cannot be launched.
template <class... Parameters, class... Arguments>
void launch_on(Device device, LaunchConfig config, Where where, void (*kernel)(Parameters...),
               Arguments&&... arguments) {
  const DeviceGuard guard(device, where);
  config.stream = current_stream(device).handle();
  const cudaError_t status = launch(config, kernel, std::forward<Arguments>(arguments)...);
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda_error(status, config.name, where);
}

/// The number of blocks of `threads` threads that have at least `n` threads together.
/// REQUIRES: 0 < n; the kernel loops over the grid where n may need more than 2^31 - 1 blocks
inline unsigned num_blocks(std::int64_t n, int threads) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<unsigned>(std::min((n + threads - 1) / threads, kMost));
}

}  // namespace ringrad
