// LaunchConfig: how a kernel is launched, on simulated or on real devices.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace ringrad {

/// `name` is for reports and timelines; `flops` and `bytes` are what the kernel computes and moves in
/// all, for the timeline of simulated devices.
struct LaunchConfig {
  const char* name;
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;  // all blocks at the same time, so that they may wait for each other
  double flops = 0;
  double bytes = 0;
};

}  // namespace ringrad
