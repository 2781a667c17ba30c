#include "ringrad/core/base/device.h"

#include <charconv>
#include <ostream>
#include <utility>

// The optimiser must remove calls of kernels, which such a build does not have (device.h).
#if !RINGRAD_GPUS && !defined(__OPTIMIZE__)
#error "a CPU-only build must be optimised, by -Og at least"
#endif

namespace ringrad {
namespace {

constexpr int max_devices(DeviceType type) {
  return type == DeviceType::cpu ? kMaxCpuDevices : kMaxCudaDevices;
}

// The index after "cpu" or "cuda", or -1.
int parse_index(std::string_view text, DeviceType type) {
  if (text.empty()) return 0;
  int index = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + 1, last, index);
  const bool valid = text[0] == ':' && error == std::errc() && end == last && index >= 0 &&
                     index < max_devices(type);
  return valid ? index : -1;
}

void check_built(DeviceType type, int index, Where where) {
  RINGRAD_CHECK(
      RINGRAD_GPUS || type == DeviceType::cpu, DeviceError, where,
      "device: must be a CPU, since this is a CPU-only build of the library; got cuda:", index);
}

}  // namespace

Device::Device(DeviceType type, int index, Where where)
    : type(type), index(static_cast<std::int16_t>(index)) {
  RINGRAD_CHECK(index >= 0 && index < max_devices(type), DeviceError, where,
                "device: index must be in [0, ", max_devices(type), "); got ", index);
  check_built(type, index, where);
}

Device::Device(std::string_view text, Where where) {
  int parsed = -1;
  for (const auto& [name, named] :
       {std::pair("cpu", DeviceType::cpu), std::pair("cuda", DeviceType::cuda)}) {
    if (!text.starts_with(name)) continue;
    type = named;
    parsed = parse_index(text.substr(std::string_view(name).size()), named);
  }
  RINGRAD_CHECK(parsed >= 0, DeviceError, where,
                "device: must be \"cpu\", \"cuda\", \"cpu:N\" with N below ", kMaxCpuDevices,
                " or \"cuda:N\" with N below ", kMaxCudaDevices, "; got \"", text, '"');
  index = static_cast<std::int16_t>(parsed);
  check_built(type, index, where);
}

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return out << (device.is_cpu() ? "cpu:" : "cuda:") << device.index;
}

void check_same_device(const char* operation, const Device& a, const Device& b, Where where) {
  RINGRAD_CHECK(a == b, DeviceError, where, operation, ": tensors must be on one device; got ", a,
                " and ", b, "; move one with to(x, device)");
}

void check_cpu(const char* operation, const Device& device, Where where) {
  RINGRAD_CHECK(device.is_cpu(), DeviceError, where, operation, ": needs tensors on a CPU; got ",
                device, "; move them with to(x, device)");
}

}  // namespace ringrad
