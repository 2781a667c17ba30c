#include "ringrad/core/pinned_memory.h"

#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

class PinnedPool {
 public:
  // Never destroyed, because tensors may outlive all static objects.
  static PinnedPool& get() {
    static auto& pool = *new PinnedPool;
    return pool;
  }

  std::shared_ptr<void> allocate(std::size_t bytes, Device gpu, Where where) {
    if (bytes == 0) return nullptr;
    const bool keeps = is_cuda_caching();
    const std::size_t size = keeps ? std::bit_ceil(bytes) : bytes;
    const DeviceGuard guard(gpu, where);
    const std::lock_guard lock(mutex_);
    void* memory = keeps ? take(size) : nullptr;
    if (!memory) memory = from_system(size, where);
    if (!memory) {
      unpin_all_free();
      memory = from_system(size, where);
    }
    RINGRAD_CHECK(memory, OutOfMemoryError, where, "empty_pinned: ", size,
                  " bytes of pinned memory must be available; got none");
    return {memory, [this, keeps](void* freed) { give_back(freed, keeps); }};
  }

  bool contains(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto* const byte = static_cast<const std::byte*>(address);
    const auto after = blocks_.upper_bound(byte);
    if (after == blocks_.begin()) return false;
    const auto& [begin, block] = *std::prev(after);
    return std::less()(byte, begin + block.bytes);
  }

 private:
  struct Block {
    std::size_t bytes;
    bool is_free;
  };

  void* take(std::size_t size) {
    for (auto& [begin, block] : blocks_)
      if (block.is_free && block.bytes == size) {
        block.is_free = false;
        return const_cast<std::byte*>(begin);
      }
    return nullptr;
  }

  // Null if there is not enough.
  void* from_system(std::size_t size, Where where) {
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    RINGRAD_CUDA_CHECK(status, where);
    blocks_[static_cast<std::byte*>(memory)] = {size, false};
    return memory;
  }

  void give_back(void* memory, bool keeps) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(memory));
    found->second.is_free = true;
    if (!keeps) unpin(found);
  }

  using Blocks = std::map<const std::byte*, Block>;

  Blocks::iterator unpin(Blocks::iterator block) {
    const cudaError_t status = cudaFreeHost(const_cast<std::byte*>(block->first));
    if (status != cudaSuccess) report_cuda_error(status, "cudaFreeHost");
    return blocks_.erase(block);
  }

  void unpin_all_free() {
    for (auto block = blocks_.begin(); block != blocks_.end();)
      block = block->second.is_free ? unpin(block) : std::next(block);
  }

  std::mutex mutex_;
  Blocks blocks_;  // by address
};

Tensor pinned(const Shape& shape, DType dtype, Device gpu, Where where) {
  check_extents("empty_pinned", shape, size_bytes(dtype), where);
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_bytes(dtype);
  std::shared_ptr<void> memory = PinnedPool::get().allocate(bytes, gpu, where);
  void* const address = memory.get();
  return from_memory(address, shape, {.dtype = dtype, .device = Device()}, std::move(memory),
                     where);
}

}  // namespace

Tensor empty_pinned(const Shape& shape, DType dtype, Where where) {
  const Device device = default_device();
  return pinned(shape, dtype, device.is_cuda() ? device : Device(DeviceType::cuda, 0), where);
}

Tensor pin(const Tensor& x, Device gpu, Where where) {
  RINGRAD_CHECK(x.device(where).is_cpu() && gpu.is_cuda(), DeviceError, where,
                "pin: the tensor must be on a CPU, to be copied to a GPU; got ", x.device(),
                " and ", gpu);
  if (is_pinned(x.raw_data())) return x;
  const std::int64_t span = span_in_memory(x);
  const Tensor memory = pinned({span}, x.dtype(), gpu, where);
  if (span > 0)
    std::memcpy(memory.raw_data(), x.raw_data(),
                static_cast<std::size_t>(span) * size_bytes(x.dtype()));
  return Tensor(
      make_ref<TensorImpl>(memory.storage(), 0, x.shape(), x.strides(), x.dtype(), where));
}

bool is_pinned(const void* address) { return PinnedPool::get().contains(address); }

}  // namespace ringrad
