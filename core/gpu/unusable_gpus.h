// GPUs that are present but cannot be used.
//
// With a driver older than its CUDA runtime, a program sees no GPUs, just as on a machine without
// any. The two cases must be told apart: tests that skip themselves without a GPU would otherwise
// seem to pass on every machine.
//
//     /dev/nvidia0, or a driver that counts GPUs     there are GPUs
//     cudaGetDeviceCount fails, or finds none        they cannot be used, unless
//                                                    CUDA_VISIBLE_DEVICES hides them

#pragma once

#include <string>

namespace ringrad {

struct GpuFacts {
  int count = 0;        ///< GPUs that CUDA's runtime offers
  std::string seen;     ///< evidence of GPUs, such as "/dev/nvidia0"; empty if none
  bool hidden = false;  ///< CUDA_VISIBLE_DEVICES names no GPU
  std::string error;    ///< the name of the status from cudaGetDeviceCount
  int driver_version =
      0;  ///< the newest CUDA that the driver runs, 12040 for 12.4; 0 without a driver's library
  int runtime_version = 0;  ///< of this program
};

/// A message such as "/dev/nvidia0 is there, but CUDA's runtime 13.0 gets
/// cudaErrorInsufficientDriver from a driver for CUDA 12.4"; empty if GPUs can be used or there are
/// none.
std::string unusable_gpus(const GpuFacts& facts);

/// True if this value of CUDA_VISIBLE_DEVICES names no GPU. Null means that it is not set.
bool hides_gpus(const char* visible_devices);

/// unusable_gpus() for this machine; ignores simulated GPUs.
const std::string& unusable_gpus();

}  // namespace ringrad
