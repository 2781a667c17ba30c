#include "core/storage.h"

#include <utility>

#include "core/allocator.h"

namespace ringrad {

Storage::Storage(std::size_t bytes, Device device, Where where)
    : data_(static_cast<std::byte*>(allocate(bytes, where))),
      bytes_(bytes),
      device_(device),
      owns_(true) {}

Storage::Storage(void* data, std::size_t bytes, Device device, std::shared_ptr<void> owner)
    : data_(static_cast<std::byte*>(data)),
      bytes_(bytes),
      device_(device),
      owns_(false),
      owner_(std::move(owner)) {}

Storage::~Storage() {
  if (owns_) deallocate(data_, bytes_);
}

Ref<Storage> Storage::slice(const Ref<Storage>& whole, std::size_t offset, std::size_t bytes) {
  RINGRAD_ASSERT(offset + bytes <= whole->bytes());
  auto part = make_ref<Storage>(whole->data() + offset, bytes, whole->device(), nullptr);
  part->whole_ = whole;
  return part;
}

}  // namespace ringrad
