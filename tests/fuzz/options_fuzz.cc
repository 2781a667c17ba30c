// The small languages of options and environment variables: --inject, --hosts, --topology,
// --device.

#include <stdexcept>

#include "ringrad/core/base/device.h"
#include "ringrad/parallel/comm/common/hosts.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/plan/predict/topology.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  const std::string text(fuzz::text_of(data, size));
  fuzz::takes<ValueError, fuzz::Errors::any>([&] {
    for (const PlannedFault& fault : parse_faults(text, 4))
      fuzz::must(fault.rank >= 0 && fault.rank < 4, "a fault is some rank's");
  });
  fuzz::takes<ValueError>(
      [&] { fuzz::must(num_ranks_of(parse_hosts(text)) >= 1, "hosts have ranks"); });
  fuzz::takes<std::invalid_argument>([&] { named_topology(text, 8); });
  fuzz::takes<DeviceError, fuzz::Errors::any>([&] { Device device(text); });
  return 0;
}
