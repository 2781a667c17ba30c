#include "ringrad/parallel/plan/predict/topology.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

constexpr int kMostDevices = 32, kDevicesPerHost = 8, kMostHosts = 100'000;

// Bandwidths in one direction.
//   NVLink         900 GB/s both ways: NVIDIA H100 (SXM5) data sheet
//   PCI Express    64 GB/s of PCIe 5.0 x16 (same data sheet: 128 GB/s both ways), of which about 50
//                  carry data
//   network        400 Gb/s: NVIDIA ConnectX-7 (NDR) user manual, one adapter per device
// NCCL's tuner assumes 3.4, 5.7 and 9.6 us for a hop of a ring on them (src/graph/tuning.cc, 2.10,
// Ring/Simple).
constexpr LinkCost kNvlink{.alpha_s = 2e-6, .beta_s_per_byte = 1 / 450e9};
constexpr LinkCost kPcie{.alpha_s = 6e-6, .beta_s_per_byte = 1 / 50e9};
constexpr LinkCost kNetwork{.alpha_s = 10e-6, .beta_s_per_byte = 1 / 50e9};

// H100 SXM5: 67 TFLOP/s in float32 without tensor cores, 80 GB of HBM3 at 3.35 TB/s. The launch
// time is an assumption.
constexpr DeviceFigures kH100{.flops_per_s = 67e12,
                              .memory_bytes_per_s = 3350e9,
                              .launch_s = 3e-6,
                              .memory_bytes = 80'000'000'000};
// An addition reads two terms and writes their sum.
constexpr double kGamma = 3 / kH100.memory_bytes_per_s;

std::optional<int> hosts_of(const std::string& name) {
  const std::string prefix = "hosts:";
  if (!name.starts_with(prefix)) return {};
  int hosts = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, hosts);
  require(error == std::errc() && stop == end && hosts >= 1 && hosts <= kMostHosts,
          "topology: hosts:N must have N in [1, ", kMostHosts, "]; got ", quoted_bytes(name));
  return hosts;
}

}  // namespace

double Topology::kernel_seconds(double flops, double bytes, double efficiency) const {
  if (!(efficiency > 0 && efficiency <= 1))
    throw std::invalid_argument("topology: the efficiency must be in (0, 1]; got " +
                                std::to_string(efficiency));
  const double best_s = std::max(flops / device.flops_per_s, bytes / device.memory_bytes_per_s);
  return device.launch_s + best_s / efficiency;
}

Topology named_topology(const std::string& name, int num_devices) {
  const std::optional<int> hosts = hosts_of(name);
  const int most = hosts ? *hosts * kDevicesPerHost : kMostDevices;
  Topology topology{.name = name,
                    .num_devices = num_devices,
                    .links = {.within_host = kNvlink,
                              .between_hosts = kNetwork,
                              .gamma_s_per_byte = kGamma,
                              .ranks_per_host = std::max(num_devices, 1)},
                    .device = kH100};
  if (hosts)
    topology.links.ranks_per_host = kDevicesPerHost;
  else if (name == "two_hosts")
    topology.links.ranks_per_host = std::max((num_devices + 1) / 2, 1);
  else if (name == "pcie4")
    topology.links.within_host = kPcie;
  else
    require(name == "nvlink8",
            "topology: the name must be nvlink8, pcie4, two_hosts or hosts:N; got ",
            quoted_bytes(name));
  require(num_devices >= 1 && num_devices <= most,
          "topology: the number of devices must be in [1, ", most, "] for ", name, "; got ",
          num_devices);
  return topology;
}

}  // namespace ringrad
