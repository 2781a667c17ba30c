#include "core/device.h"

#include <charconv>
#include <ostream>

namespace ringrad {

Device::Device(DeviceType type, int index, Where where)
    : type(type), index(static_cast<std::int16_t>(index)) {
  RINGRAD_CHECK(index >= 0 && index < kMaxCpuDevices, DeviceError, where,
                "device: index must be in [0, ", kMaxCpuDevices, "); got ", index);
}

Device::Device(std::string_view text, Where where) {
  constexpr std::string_view kCpu = "cpu";
  bool valid = text.starts_with(kCpu);
  if (valid && text.size() > kCpu.size()) {
    const char* first = text.data() + kCpu.size() + 1;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, index);
    valid = text[kCpu.size()] == ':' && error == std::errc() && end == last && index >= 0 &&
            index < kMaxCpuDevices;
  }
  RINGRAD_CHECK(valid, DeviceError, where, "device: must be \"cpu\" or \"cpu:N\" with N below ",
                kMaxCpuDevices, "; got \"", text, '"');
}

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return out << "cpu:" << device.index;
}

void check_same_device(const char* operation, const Device& a, const Device& b, Where where) {
  RINGRAD_CHECK(a == b, DeviceError, where, operation, ": tensors must be on one device; got ", a,
                " and ", b, "; move one with to(x, device)");
}

}  // namespace ringrad
