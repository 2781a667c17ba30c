// The CUDA runtime of a CPU-only build: it has no device (cuda_runtime.cc).
// sim/include/cuda_flavour.h and core/gpu/nvcc/cuda_flavour.h are its counterparts with GPUs.

#pragma once

#include <string>

namespace ringrad {

inline constexpr bool kSimulatedCuda = false;

/// There is no report besides an error's name.
inline std::string cuda_report() { return {}; }

}  // namespace ringrad
