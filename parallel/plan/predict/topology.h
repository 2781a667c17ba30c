// Topology: devices and the links between them, as a CostModel and a few figures. Predictions
// (training_cost.h) use it where there is nothing to measure.
//
//     nvlink8      one host, all devices on an NVLink switch
//     pcie4        one host, all devices on a PCI Express switch
//     two_hosts    half of the devices on each, NVLink inside, a network between
//     hosts:N      N hosts of 8, likewise; up to 8 N devices
//
// The first three are those of simulated devices (sim/clock.h), with the same figures. Nothing here
// is measured: bandwidths and peaks come from data sheets, latencies are of the order that NCCL's
// own model assumes.

#pragma once

#include <cstdint>
#include <string>

#include "ringrad/parallel/plan/predict/cost.h"

namespace ringrad {

/// The peak figures of one device.
struct DeviceFigures {
  double flops_per_s = 0;         ///< float32
  double memory_bytes_per_s = 0;  ///< both directions together
  double launch_s = 0;            ///< from one kernel's end to the next one's start
  std::int64_t memory_bytes = 0;
};

struct Topology {
  std::string name;
  int num_devices = 1;
  CostModel links;
  DeviceFigures device;

  /// The least seconds that a kernel needs: launch + max(flops / peak, bytes / bandwidth), where
  /// peak and bandwidth are multiplied by `efficiency`.
  ///
  /// Throws: std::invalid_argument unless 0 < efficiency <= 1
  double kernel_seconds(double flops, double bytes, double efficiency) const;
};

/// Throws: std::invalid_argument for a name not listed above, or unless num_devices is in [1, 32],
///         for hosts:N in [1, 8 N]
Topology named_topology(const std::string& name, int num_devices);

}  // namespace ringrad
