// launch(): the only way to start a kernel, here on simulated devices. core/gpu/nvcc/cuda_launch.h
// has the same for real ones.

#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "ringrad/sim/device/device.h"
#include "ringrad/sim/device/runtime_types.h"

namespace ringrad {

/// How a kernel is launched. `name` appears in reports and timelines.
struct LaunchConfig {
  const char* name;
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;  ///< all blocks at the same time, so that they may wait for each other
  double flops = 0;          ///< of the whole kernel; for the timeline of simulated devices
  double bytes = 0;          ///< moved by the whole kernel; likewise
};

namespace sim {

/// A kernel's argument, seen as bytes.
struct Argument {
  const void* address;
  std::size_t bytes;
  bool is_pointer;
};

/// Clears padding, so that stale bytes in it are not mistaken for pointers. An empty struct has no
/// bytes of its own.
template <class T>
void clear_padding(T& value) {
  if constexpr (!std::is_empty_v<T>) __builtin_clear_padding(&value);
}

cudaError_t enqueue_kernel(const LaunchConfig& config, const void* function,
                           const std::vector<Argument>& arguments, std::function<void()> body);

}  // namespace sim

/// Queues `kernel(arguments...)` on config.stream. The arguments are converted to the kernel's
/// parameter types and copied.
template <class... Parameters, class... Arguments>
cudaError_t launch(const LaunchConfig& config, void (*kernel)(Parameters...),
                   Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((!std::is_reference_v<Parameters> && ...));
  auto values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...);
  std::apply([](auto&... value) { (sim::clear_padding(value), ...); }, values);
  const auto described = std::apply(
      [](const auto&... value) {
        return std::vector<sim::Argument>{
            {&value, sizeof value, std::is_pointer_v<std::remove_cvref_t<decltype(value)>>}...};
      },
      values);
  return sim::enqueue_kernel(config, reinterpret_cast<const void*>(kernel), described,
                             [kernel, values] { std::apply(kernel, values); });
}

}  // namespace ringrad

/// RINGRAD_SHARED(float, tile, [32][33]) declares `float tile[32][33]` in shared memory;
/// RINGRAD_SHARED(float, mean) declares a single number.
#define RINGRAD_SHARED(type, name, ...)                                                \
  using name##_shared_type = type __VA_ARGS__;                                         \
  static const char name##_declaration = 0;                                            \
  auto& name = *static_cast<name##_shared_type*>(::ringrad::sim::device::shared_array( \
      &name##_declaration, sizeof(name##_shared_type), alignof(name##_shared_type)))

/// Declares `type* name`, the launch's dynamic shared memory.
#define RINGRAD_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::ringrad::sim::device::dynamic_shared())
