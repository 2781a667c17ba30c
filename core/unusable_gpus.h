// GPUs that are there and cannot be used.
//
// A driver older than a program's CUDA runtime gives it no GPUs, just as a machine without any does. The
// two must be told apart: what skips itself where there is no GPU would else look well on every machine.
//
//     /dev/nvidia0, or a driver that counts GPUs     there are some
//     cudaGetDeviceCount fails, or finds none        they cannot be used, unless CUDA_VISIBLE_DEVICES hides them

#pragma once

#include <string>

namespace ringrad {

struct GpuFacts {
  int count = 0;        ///< that CUDA's runtime offers
  std::string seen;     ///< what shows that there are some, "/dev/nvidia0"; empty if nothing does
  bool hidden = false;  ///< CUDA_VISIBLE_DEVICES names none
  std::string error;    ///< the name of what cudaGetDeviceCount returned
  int driver_version =
      0;  ///< the newest CUDA that the driver runs, 12040 for 12.4; 0 without a driver's library
  int runtime_version = 0;  ///< of this program
};

/// "/dev/nvidia0 is there, but CUDA's runtime 13.0 gets cudaErrorInsufficientDriver from a driver for CUDA 12.4";
/// empty if GPUs can be used, or there are none.
std::string unusable_gpus(const GpuFacts& facts);

/// True if the value of CUDA_VISIBLE_DEVICES, null if it is not set, names no GPU.
bool hides_gpus(const char* visible_devices);

/// What unusable_gpus says of this machine; nothing of simulated GPUs.
const std::string& unusable_gpus();

}  // namespace ringrad
