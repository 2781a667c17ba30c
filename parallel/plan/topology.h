// Topology: devices and the links between them, as a CostModel and a few figures; what predictions (training_cost.h)
// are made for where there is nothing to measure.
//
//     nvlink8      one host, all devices on an NVLink switch
//     pcie4        one host, all devices on a PCI Express switch
//     two_hosts    half of the devices on each, NVLink inside, a network between
//     hosts:N      N hosts of 8, likewise; up to 8 N devices
//
// The first three are those that simulated devices have (sim/clock.h), with the same figures. Nothing here is measured:
// bandwidths and peaks are data sheets', latencies are of the order of those that NCCL's own model assumes.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/plan/cost.h"

namespace ringrad {

/// What one device can do at best.
struct DeviceFigures {
  double flops_per_s = 0;         ///< float32
  double memory_bytes_per_s = 0;  ///< both directions together
  double launch_s = 0;            ///< from one kernel's end to the next one's begin
  std::int64_t memory_bytes = 0;
};

struct Topology {
  std::string name;
  int num_devices = 1;
  CostModel links;
  DeviceFigures device;

  /// The seconds that a kernel needs at the least: launch + max(flops / peak, bytes / bandwidth), peak and bandwidth
  /// at `efficiency`.
  ///
  /// Throws: std::invalid_argument unless 0 < efficiency <= 1
  double kernel_seconds(double flops, double bytes, double efficiency) const;
};

/// Throws: std::invalid_argument for another name than those above, or unless num_devices is in [1, 32], for hosts:N in
///         [1, 8 N]
Topology named_topology(const std::string& name, int num_devices);

/// The names, the last as "hosts:N".
std::vector<std::string> topology_names();

}  // namespace ringrad
