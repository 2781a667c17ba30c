// Which CUDA runtime this build runs on: NVIDIA's. sim/include/cuda_flavour.h has the same for simulated
// devices.

#pragma once

#include <string>

namespace ringrad {

inline constexpr bool kSimulatedCuda = false;

/// What the runtime has to say about its last error besides the error's name; empty if nothing.
inline std::string cuda_report() { return {}; }

}  // namespace ringrad
