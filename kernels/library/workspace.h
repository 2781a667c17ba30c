// Workspace memory for a library's kernel: from our own allocator, in the order of the current
// stream. Private to kernels/.

#pragma once

#include <cstddef>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/allocator_cuda.h"

namespace ringrad::kernels {

class Workspace {
 public:
  /// Throws: OutOfMemoryError
  Workspace(std::size_t bytes, Device device, Where where)
      : device_(device), address_(bytes > 0 ? cuda_allocate(bytes, device, where) : nullptr) {}
  ~Workspace() {
    if (address_) cuda_deallocate(address_, device_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Null if `bytes` is 0.
  void* address() const { return address_; }

 private:
  Device device_;
  void* address_;
};

}  // namespace ringrad::kernels
