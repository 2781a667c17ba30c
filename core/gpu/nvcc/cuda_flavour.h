// The CUDA runtime of this build: NVIDIA's. sim/include/cuda_flavour.h is its counterpart for
// simulated devices.

#pragma once

#include <string>

namespace ringrad {

inline constexpr bool kSimulatedCuda = false;

/// The runtime's details on its last error, besides the error's name; empty if there are none.
inline std::string cuda_report() { return {}; }

}  // namespace ringrad
