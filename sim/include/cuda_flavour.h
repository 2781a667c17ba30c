// Which CUDA runtime this build runs on: the simulated one. core/nvcc/cuda_flavour.h takes its place for
// real devices.

#pragma once

#include <string>

#include "sim/simulator.h"

namespace ringrad {

inline constexpr bool kSimulatedCuda = true;

/// What the runtime has to say about its last error besides the error's name; empty if nothing.
inline std::string cuda_report() { return sim::last_report(); }

}  // namespace ringrad
