#include "ringrad/core/gpu/unusable_gpus.h"

#include <cuda_flavour.h>
#include <cuda_runtime.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/shared_library.h"

namespace ringrad {
namespace {

std::string version_text(int version) { return concat(version / 1000, '.', version % 1000 / 10); }

// The first file such as "/dev/nvidia0". Files of the driver itself, such as /dev/nvidiactl, do not
// count.
std::string device_file() {
  constexpr std::string_view kPrefix = "nvidia";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename();
    if (name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
        name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos)
      return entry.path();
  }
  return {};
}

// Asks the driver's own library, which does not depend on the runtime.
void ask_driver(GpuFacts& facts) {
  SharedLibrary driver{"libcuda.so.1"};
  int (*init)(unsigned) = nullptr;
  int (*count_devices)(int*) = nullptr;
  int (*version)(int*) = nullptr;
  driver.find("cuInit", init);
  driver.find("cuDeviceGetCount", count_devices);
  driver.find("cuDriverGetVersion", version);
  if (!driver.missing().empty()) return;
  version(&facts.driver_version);
  int count = 0;
  if (facts.seen.empty() && init(0) == 0 && count_devices(&count) == 0 && count > 0)
    facts.seen = concat("a driver with ", count, " GPUs");
}

GpuFacts look() {
  GpuFacts facts;
  const cudaError_t status = cudaGetDeviceCount(&facts.count);
  if (status == cudaSuccess && facts.count > 0) return facts;
  facts.count = 0;
  facts.error = cudaGetErrorName(status);
  cudaGetLastError();
  facts.hidden = hides_gpus(std::getenv("CUDA_VISIBLE_DEVICES"));
  facts.seen = device_file();
  cudaRuntimeGetVersion(&facts.runtime_version);
  ask_driver(facts);
  return facts;
}

}  // namespace

std::string unusable_gpus(const GpuFacts& facts) {
  const bool failed = facts.error != "cudaSuccess" && facts.error != "cudaErrorNoDevice";
  if (facts.count > 0 || facts.seen.empty() || (facts.hidden && !failed)) return "";
  const std::string driver = facts.driver_version > 0
                                 ? concat("a driver for CUDA ", version_text(facts.driver_version))
                                 : "no driver library";
  const bool is_old = facts.driver_version > 0 && facts.driver_version < facts.runtime_version;
  return concat(facts.seen, " is there, but CUDA's runtime ", version_text(facts.runtime_version),
                " gets ", failed || facts.error == "cudaErrorNoDevice" ? facts.error : "no GPU",
                " from ", driver, is_old ? ", which is too old" : "");
}

bool hides_gpus(const char* visible_devices) {
  if (!visible_devices) return false;
  const std::string_view first(visible_devices);
  const bool is_number = !first.empty() && std::isdigit(static_cast<unsigned char>(first[0]));
  return !is_number && !first.starts_with("GPU-") && !first.starts_with("MIG-");
}

const std::string& unusable_gpus() {
  constexpr bool kReal = RINGRAD_GPUS && !kSimulatedCuda;
  static const std::string why = kReal ? unusable_gpus(look()) : std::string();
  return why;
}

}  // namespace ringrad
