// Device: where a tensor lives.
//
// CPU indices are logical devices: cpu:0 and cpu:1 share the same cores and memory, yet their
// tensors do not mix. So a program that places layers on several devices runs unchanged on one
// machine without a GPU. CUDA indices are the CUDA runtime's; the build decides whether its GPUs
// are real or simulated (docs/gpu.md); a CPU-only build has none.

#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "ringrad/core/base/error.h"
#include "ringrad/core/base/scoped_value.h"

// 0 in a CPU-only build (CMakeLists.txt): no device is a GPU there, and the compiler removes the
// code for GPUs.
#ifndef RINGRAD_GPUS
#define RINGRAD_GPUS 1
#endif

namespace ringrad {

/// Where memory lies and which processor computes on it: a CPU, or a GPU under CUDA, simulated or
/// real.
enum class DeviceType : std::uint8_t { cpu, cuda };

/// The numbers of logical CPU devices and of GPUs that a Device may name.
inline constexpr int kMaxCpuDevices = 1024;
inline constexpr int kMaxCudaDevices = 64;

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int16_t index = 0;

  constexpr Device() = default;
  /// Throws DeviceError unless 0 <= index < kMaxCpuDevices for a CPU, or kMaxCudaDevices for a GPU,
  /// and for a GPU in a CPU-only build. Whether a GPU exists is checked when it is first
  /// used.
  Device(DeviceType type, int index, Where where = Where::current());

  /// Parses "cpu", "cpu:3", "cuda" or "cuda:3". Throws DeviceError for anything else.
  Device(std::string_view text, Where where = Where::current());
  Device(const char* text, Where where = Where::current())
      : Device(std::string_view(text), where) {}

  constexpr bool is_cpu() const { return !is_cuda(); }
  constexpr bool is_cuda() const { return RINGRAD_GPUS && type == DeviceType::cuda; }

  bool operator==(const Device&) const = default;
};

/// "cpu:0", "cuda:1"
std::ostream& operator<<(std::ostream& out, const Device& device);

namespace detail {
inline constinit thread_local Device default_device;
}  // namespace detail

/// The device of tensors that the calling thread makes without naming one: cpu:0 until
/// set_default_device.
inline Device default_device() { return detail::default_device; }
/// Sets it, for the calling thread.
inline void set_default_device(Device device) { detail::default_device = device; }

/// Changes the default device until the end of the scope.
struct DefaultDeviceGuard : ScopedValue<Device> {
  explicit DefaultDeviceGuard(Device device) : ScopedValue(detail::default_device, device) {}
};

/// Throws DeviceError "<operation>: tensors must be on one device; got cpu:0 and cpu:1".
void check_same_device(const char* operation, const Device& a, const Device& b, Where where);

/// Throws DeviceError "<operation>: needs tensors on a CPU; got cuda:0".
void check_cpu(const char* operation, const Device& device, Where where);

}  // namespace ringrad
