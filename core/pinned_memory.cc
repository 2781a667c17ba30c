#include "ringrad/core/pinned_memory.h"

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

void unpin(void* memory) {
  const cudaError_t status = cudaFreeHost(memory);
  if (status != cudaSuccess) report_cuda_error(status, "cudaFreeHost");
}

// Never destroyed, because tensors may outlive all static objects.
class PinnedPool {
 public:
  static PinnedPool& get() {
    static auto& pool = *new PinnedPool;
    return pool;
  }

  std::shared_ptr<void> allocate(std::size_t bytes, Where where) {
    if (bytes == 0) return nullptr;
    const std::size_t size = std::bit_ceil(bytes);
    if (void* memory = take(size)) return share(memory, size);
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) cudaGetLastError();
    RINGRAD_CHECK(status != cudaErrorMemoryAllocation, OutOfMemoryError, where,
                  "empty_pinned: ", size, " bytes of pinned memory must be available; got none");
    RINGRAD_CUDA_CHECK(status, where);
    return share(memory, size);
  }

 private:
  void* take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& blocks = free_[size];
    if (blocks.empty()) return nullptr;
    void* const memory = blocks.back();
    blocks.pop_back();
    return memory;
  }

  std::shared_ptr<void> share(void* memory, std::size_t size) {
    return {memory, [this, size](void* freed) {
              if (!is_cuda_caching()) return unpin(freed);
              const std::lock_guard lock(mutex_);
              free_[size].push_back(freed);
            }};
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
};

}  // namespace

Tensor empty_pinned(const Shape& shape, DType dtype, Where where) {
  check_extents("empty_pinned", shape, size_bytes(dtype), where);
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_bytes(dtype);
  std::shared_ptr<void> memory = PinnedPool::get().allocate(bytes, where);
  void* const address = memory.get();
  return from_memory(address, shape, {.dtype = dtype, .device = Device()}, std::move(memory),
                     where);
}

Tensor pin(const Tensor& x, Where where) {
  RINGRAD_CHECK(x.device(where).is_cpu(), DeviceError, where,
                "pin: the tensor must be on a CPU; got one on ", x.device());
  if (is_pinned(x.raw_data())) return x;
  const std::int64_t span = span_in_memory(x);
  const Tensor memory = empty_pinned({span}, x.dtype(), where);
  if (span > 0)
    std::memcpy(memory.raw_data(), x.raw_data(),
                static_cast<std::size_t>(span) * size_bytes(x.dtype()));
  return Tensor(
      make_ref<TensorImpl>(memory.storage(), 0, x.shape(), x.strides(), x.dtype(), where));
}

bool is_pinned(const void* memory) {
  if (num_cuda_devices() == 0) return false;
  cudaPointerAttributes attributes = {};
  return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess &&
         attributes.type == cudaMemoryTypeHost;
}

}  // namespace ringrad
