#include "core/transfer.h"

#include <cstring>
#include <memory>

#include "core/cuda_check.h"
#include "core/device_fault.h"
#include "core/device_watch.h"
#include "core/stream.h"

namespace ringrad {
namespace {

// Both GPUs' streams wait for each other: the copy comes after what either did before, and before
// what either does later.
void copy_between_gpus(void* to, Device to_device, const void* from, Device from_device,
                       std::size_t bytes, Where where) {
  const Stream source = current_stream(from_device), target = current_stream(to_device);
  Event(target, /*timing=*/false, where).block(source, where);
  {
    const DeviceGuard guard(from_device, where);
    RINGRAD_CUDA_CHECK(
        cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, bytes, source.handle()),
        where);
  }
  Event(source, /*timing=*/false, where).block(target, where);
}

// A copy into ordinary memory waits inside the runtime, where nobody would notice that it is for a rank that has died.
void wait_for_ranks(const Stream& stream, Where where) {
  const DeviceGuard guard(stream.device(), where);
  watch_ranks(stream.device(),
              [&] { return cudaStreamQuery(stream.handle()) != cudaErrorNotReady; });
}

}  // namespace

void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device,
                      std::size_t bytes, Where where) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
  } else if (to_device.is_cuda() && from_device.is_cuda() && to_device != from_device) {
    copy_between_gpus(to, to_device, from, from_device, bytes, where);
  } else {
    const Device gpu = to_device.is_cuda() ? to_device : from_device;
    const DeviceGuard guard(gpu, where);
    RINGRAD_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, current_stream(gpu).handle()), where);
  }
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
                Where where) {
  const bool waits = to_device.is_cpu() && from_device.is_cuda();
  if (waits) {
    refuse_while_capturing("a copy to the CPU (item(), to_vector(), printing ...)", where);
    wait_for_ranks(current_stream(from_device), where);
  }
  if (to_device.is_cuda() && from_device.is_cpu())
    refuse_while_capturing("a copy from the CPU, whose bytes a replay would not find again", where);
  copy_bytes_async(to, to_device, from, from_device, bytes, where);
  if (waits) current_stream(from_device).synchronize(where);
}

Tensor to_host(const Tensor& x, Where where) {
  if (x.device(where).is_cpu()) return x;
  // From the first to the last element, whatever lies between them.
  std::int64_t span = x.numel() > 0 ? 1 : 0;
  for (int i = 0; i < x.dims() && span > 0; ++i) span += (x.shape()[i] - 1) * x.strides()[i];
  const auto bytes = static_cast<std::size_t>(span) * size_bytes(x.dtype());
  auto storage = make_ref<Storage>(bytes, Device(), where);
  copy_bytes(storage->data(), Device(), x.raw_data(), x.device(), bytes, where);
  return Tensor(
      make_ref<TensorImpl>(std::move(storage), 0, x.shape(), x.strides(), x.dtype(), where));
}

Tensor to_device(const Tensor& x, Device device, Where where) {
  if (x.device(where) == device) return x;
  const Tensor result = empty(x.shape(), {.dtype = x.dtype(), .device = device}, where);
  copy_bytes(result.raw_data(), device, x.raw_data(), x.device(), result.storage()->bytes(), where);
  return result;
}

Tensor empty_pinned(const Shape& shape, DType dtype, Where where) {
  check_extents("empty_pinned", shape, size_bytes(dtype), where);
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_bytes(dtype);
  void* memory = nullptr;
  if (bytes > 0) {
    const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    RINGRAD_CHECK(status != cudaErrorMemoryAllocation, OutOfMemoryError, where,
                  "empty_pinned: ", bytes, " bytes of pinned memory must be available; got none");
    RINGRAD_CUDA_CHECK(status, where);
  }
  const auto free = [](void* pinned) {
    const cudaError_t status = pinned ? cudaFreeHost(pinned) : cudaSuccess;
    if (status != cudaSuccess) report_cuda_error(status, "cudaFreeHost");
  };
  return from_memory(memory, shape, {.dtype = dtype, .device = Device()},
                     std::shared_ptr<void>(memory, free), where);
}

}  // namespace ringrad
