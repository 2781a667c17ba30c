#include "ringrad/core/storage.h"

#include <utility>

#include "ringrad/core/base/allocator.h"
#include "ringrad/core/gpu/allocator_cuda.h"

namespace ringrad {

Storage::Storage(std::size_t bytes, Device device, Where where)
    : device_(device),
      data_(static_cast<std::byte*>(device.is_cpu() ? allocate(bytes, where)
                                                    : cuda_allocate(bytes, device, where))),
      bytes_(bytes & kMostBytes),
      owns_(true) {}

Storage::Storage(void* data, std::size_t bytes, Device device, std::shared_ptr<void> owner)
    : device_(device),
      data_(static_cast<std::byte*>(data)),
      bytes_(bytes & kMostBytes),
      owns_(false),
      owner_(std::move(owner)) {}

Storage::~Storage() {
  if (!owns_) return;
  device_.is_cpu() ? deallocate(data_, bytes_) : cuda_deallocate(data_, device_);
}

Ref<Storage> Storage::slice(const Ref<Storage>& whole, std::size_t offset, std::size_t bytes) {
  RINGRAD_ASSERT(offset + bytes <= whole->bytes());
  auto part = make_ref<Storage>(whole->data() + offset, bytes, whole->device(), nullptr);
  part->whole_ = whole;
  return part;
}

void Storage::move_to(Ref<Storage> memory) {
  RINGRAD_ASSERT(whole_ && memory->bytes() == bytes());
  owner_ = std::make_shared<Ref<Storage>>(whole_);
  data_ = memory->data();
  whole_ = std::move(memory);
}

}  // namespace ringrad
