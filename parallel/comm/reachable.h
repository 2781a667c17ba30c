// Reachable: a tensor's values where all ranks of a group reach them.

#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "core/tensor.h"
#include "parallel/comm/group_memory.h"

namespace ringrad {

/// The tensor's own memory, or else a copy of it, made now and put back when the collective is done.
class Reachable {
 public:
  enum class Copy { in, out, both };

  Reachable(GroupMemory& memory, const Tensor& tensor, Copy copy, Where where)
      : original_(tensor.raw_data()),
        bytes_(static_cast<std::size_t>(tensor.numel()) * size_bytes(tensor.dtype())),
        copy_(copy) {
    if (memory.is_visible(original_)) return;
    place_ = memory.allocate(bytes_, where);
    if (copy != Copy::out && bytes_ > 0) std::memcpy(place_.get(), original_, bytes_);
  }

  std::byte* data() const { return place_ ? place_.get() : original_; }

  void put_back() const {
    if (place_ && copy_ != Copy::in && bytes_ > 0) std::memcpy(original_, place_.get(), bytes_);
  }

 private:
  std::byte* original_;
  std::size_t bytes_;
  Copy copy_;
  std::shared_ptr<std::byte> place_;
};

}  // namespace ringrad
