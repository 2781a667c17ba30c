// SharedGpu: says that kernels of several streams run on a GPU at the same time.
//
// A kernel whose blocks wait for each other ends only once all of them are on the GPU. Beside one that waits for
// another rank, or a second of its own kind, they may never all find a place:
//
//     rank 0's stream    all_reduce, on some multiprocessors, waits for rank 1 ...
//     rank 1's stream    batch norm, needs all of them at once, waits for rank 0's all_reduce to end
//
// cuDNN's batch norm may be such a kernel, and cuDNN does not tell which of its engines are. So while a GPU is
// shared, batch norm is computed by our own kernels, whose blocks all end by themselves (provider.h).

#pragma once

#include "core/device.h"

namespace ringrad {

/// The GPU is shared until the end of the scope; several may say so at a time. Thread-safe. REQUIRES: a GPU
class SharedGpu {
 public:
  explicit SharedGpu(Device device);
  ~SharedGpu();
  SharedGpu(const SharedGpu&) = delete;
  SharedGpu& operator=(const SharedGpu&) = delete;

 private:
  const Device device_;
};

/// True if somebody says so now.
bool is_shared(Device device);

}  // namespace ringrad
