// CPU memory that GPUs can access. It is reused, because freeing it would wait for all GPUs.

#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>

#include "ringrad/tests/parallel/comm/gpu/mock_nccl.h"

namespace ringrad::testing {

class Pool {
 public:
  std::byte* take(std::size_t bytes, const MockNcclRuntime& runtime) {
    const std::lock_guard lock(mutex_);
    const auto found = free_.lower_bound(bytes);
    if (found != free_.end()) {
      std::byte* const block = found->second;
      sizes_[block] = found->first;
      free_.erase(found);
      return block;
    }
    auto* const block = static_cast<std::byte*>(runtime.allocate_pinned(bytes));
    std::memset(block, 0, bytes);
    sizes_[block] = bytes;
    return block;
  }
  void give_back(std::byte* block) {
    const std::lock_guard lock(mutex_);
    free_.emplace(sizes_[block], block);
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> free_;
  std::map<std::byte*, std::size_t> sizes_;
};

}  // namespace ringrad::testing
