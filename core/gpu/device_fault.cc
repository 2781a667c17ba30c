#include "ringrad/core/gpu/device_fault.h"

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <string>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/device_watch.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {
namespace {

std::array<std::atomic<DeviceFault*>, kMaxCudaDevices> faults;
std::mutex mutex;

// The position of the i-th element in row-major order, as indices along the axes.
Shape position(const Shape& shape, std::int64_t i) {
  Shape result = shape;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    result[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return result;
}

}  // namespace

void throw_bad_index(const BadIndex& index) {
  const std::string exception = index.some_ignored ? concat(" or be ", index.ignored) : "";
  throw IndexError(
      concat(index.operation, ": ", index.what, " must be in [0, ", index.bound, ")", exception,
             "; got ", index.value, " at position ", position(index.shape, index.position)),
      index.where);
}

DeviceFault* device_fault(Device device, Where where) {
  std::atomic<DeviceFault*>& place = faults[static_cast<unsigned>(device.index)];
  if (DeviceFault* fault = place.load(std::memory_order_acquire)) return fault;
  const std::scoped_lock lock(mutex);
  if (DeviceFault* fault = place.load(std::memory_order_relaxed)) return fault;
  const DeviceGuard guard(device, where);
  void* memory = nullptr;
  RINGRAD_CUDA_CHECK(
      cudaHostAlloc(&memory, sizeof(DeviceFault), cudaHostAllocPortable | cudaHostAllocMapped),
      where);
  auto* fault = new (memory) DeviceFault{};
  place.store(fault, std::memory_order_release);
  return fault;
}

void throw_device_fault(Device device) {
  throw_device_note(device);
  DeviceFault* fault = faults[static_cast<unsigned>(device.index)].load(std::memory_order_acquire);
  if (!fault) return;
  const std::scoped_lock lock(mutex);
  const std::atomic_ref state(fault->state);
  if (state.load(std::memory_order_acquire) != DeviceFault::kNoted) return;
  const DeviceFault found = *fault;
  state.store(DeviceFault::kNone, std::memory_order_release);
  throw_bad_index(found.index);
}

}  // namespace ringrad
