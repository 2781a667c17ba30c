// Device: where a tensor lives.
//
// CPU indices are logical devices: cpu:0 and cpu:1 share the same cores and memory, yet tensors on
// them do not mix, so that a program that places layers on several devices is the same program on
// one machine without any GPU.

#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "core/error.h"

namespace ringrad {

enum class DeviceType : std::uint8_t { cpu };

/// The number of logical CPU devices a Device may name.
inline constexpr int kMaxCpuDevices = 1024;

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int16_t index = 0;

  constexpr Device() = default;
  /// Throws DeviceError unless 0 <= index < kMaxCpuDevices.
  Device(DeviceType type, int index, Where where = Where::current());

  /// Parses "cpu" or "cpu:3". Throws DeviceError for anything else.
  Device(std::string_view text, Where where = Where::current());
  Device(const char* text, Where where = Where::current())
      : Device(std::string_view(text), where) {}

  bool operator==(const Device&) const = default;
};

/// "cpu:0"
std::ostream& operator<<(std::ostream& out, const Device& device);

/// Throws DeviceError "<operation>: tensors must be on one device; got cpu:0 and cpu:1".
void check_same_device(const char* operation, const Device& a, const Device& b, Where where);

}  // namespace ringrad
