// The simulator's own interface: how a test or a tool configures it and reads its findings. Plain
// CUDA programs never need it; environment variables set the same options (defaults at the end of
// each line):
//
//     RINGRAD_SIM_DEVICES       number of devices; 8
//     RINGRAD_SIM_MEMORY_MIB    memory of each device in MiB; 4096
//     RINGRAD_SIM_TOPOLOGY      nvlink8, pcie4 or two_hosts (clock.h); nvlink8
//     RINGRAD_SIM_SEED          if not 0, ops that are ready run in a random order; 0
//     RINGRAD_SIM_HANG_MS       milliseconds for which kernels may spin without progress; 10000
//     CUDA_DEVICE_MAX_CONNECTIONS   hardware queues of each device, 1 to 32, as CUDA reads it; 8
//     RINGRAD_SIM_TRAP          1 stops kernels that compute with unwritten values (unwritten.h); 0
//     RINGRAD_SIM_TRACE         file for the simulated timeline, written at exit; none

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ringrad::sim {

struct Options {
  int num_devices = 8;
  std::size_t bytes_per_device = std::size_t{4} << 30;
  std::string topology = "nvlink8";
  std::uint64_t seed = 0;
  std::size_t num_queues = 8;  // of each device, in hardware
  std::chrono::milliseconds hang_limit{10'000};
  bool trap_unwritten = false;

  /// Throws: std::invalid_argument for an invalid variable
  static Options from_environment();
};

/// Discards all devices, with their memory, streams, events and errors, and starts anew.
/// REQUIRES: no other thread uses the runtime
void reset(const Options& options = Options::from_environment());

/// The report of the last error that the runtime gave to this thread; empty if there was none.
std::string last_report();

/// Number of allocations, on all devices, that are not freed or, if imported, not closed.
std::size_t num_live_allocations();

/// The simulated timeline so far in Chrome's trace format: one process per device, one row per
/// stream. Starts recording at the first call, or at the beginning with RINGRAD_SIM_TRACE.
std::string chrome_trace();

}  // namespace ringrad::sim
