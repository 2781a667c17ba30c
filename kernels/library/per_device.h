// One object for each GPU, created on first use. Private to kernels/.

#pragma once

#include <map>
#include <mutex>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"

namespace ringrad::kernels {

/// The objects are never destroyed, since the driver may already be gone by then. Thread-safe.
template <class T>
T& per_device(Device device, Where where) {
  static std::mutex mutex;
  static auto* objects = new std::map<int, T>;
  const std::scoped_lock lock(mutex);
  return objects->try_emplace(device.index, device, where).first->second;
}

}  // namespace ringrad::kernels
