// SharedGpu: declares that kernels of several streams run on a GPU at the same time.
//
// A kernel whose blocks wait for each other ends only once all of them are on the GPU. Next to a
// kernel that waits for another rank, or a second one of its own kind, they may never all fit:
//
//     rank 0's stream    all_reduce, on some multiprocessors, waits for rank 1 ...
//     rank 1's stream    batch norm, needs all of them at once, waits for rank 0's all_reduce
//
// cuDNN's batch norm and attention may be such kernels, and cuDNN does not say which of its engines
// are. So while a GPU is shared, both use our own kernels, whose blocks all end by themselves
// (backend.h).

#pragma once

#include "ringrad/core/base/device.h"

namespace ringrad {

/// Marks the GPU as shared until the end of the scope. Several SharedGpu may exist for one GPU at
/// once. Thread-safe.
/// REQUIRES: a GPU
class SharedGpu {
 public:
  explicit SharedGpu(Device device);
  ~SharedGpu();
  SharedGpu(const SharedGpu&) = delete;
  SharedGpu& operator=(const SharedGpu&) = delete;

 private:
  const Device device_;
};

/// True while at least one SharedGpu exists for the device.
bool is_shared(Device device);

}  // namespace ringrad
