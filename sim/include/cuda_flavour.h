// Which CUDA runtime this build runs on: the simulated one. core/gpu/nvcc/cuda_flavour.h takes its
// place for real devices.

#pragma once

#include <string>

#include "ringrad/sim/simulator.h"

namespace ringrad {

inline constexpr bool kSimulatedCuda = true;

/// The runtime's report on its last error, besides the error's name; empty if there is none.
inline std::string cuda_report() { return sim::last_report(); }

}  // namespace ringrad
