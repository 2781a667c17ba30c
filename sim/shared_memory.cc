#include "ringrad/sim/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "ringrad/sim/racecheck/access_check.h"
#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/unwritten.h"

namespace ringrad::sim {
namespace {

constexpr std::size_t kLeastAlignment = 16;
constexpr std::size_t kMaxArrays = 64;  // so that a block's own threads never allocate
// The gap after each array: no thread may touch it in builds that check, and it does not count as
// shared memory.
constexpr std::size_t kGap = 32;
constexpr std::size_t kDynamic = kStaticSharedBytes + kMaxArrays * kGap;
constexpr std::size_t kBytes = kDynamic + kMaxSharedBytes;

}  // namespace

SharedMemory::SharedMemory() { arrays_.reserve(kMaxArrays); }

SharedMemory::~SharedMemory() {
  if (!memory_) return;
  unpoison(memory_, kBytes);
  munmap(memory_, kBytes);
  give_back_addresses(Space::shared, memory_, kBytes);
}

void SharedMemory::reserve() {
  if (memory_) return;
  memory_ = static_cast<std::byte*>(map_unseen(take_addresses(Space::shared, kBytes), kBytes));
  if (!memory_) throw std::bad_alloc();
  poison(memory_, kBytes);
}

void SharedMemory::begin_block(std::size_t dynamic_bytes, std::size_t limit_bytes) {
  if (memory_ && (static_bytes_ > 0 || dynamic_used_)) {
    poison(memory_, kBytes);
    note_dead(memory_, kBytes);
    // The next block gets other addresses, so that its accesses do not race with those of earlier
    // blocks. The memory is released; the addresses stay reserved.
    if (kTsan) {
      madvise(memory_, kBytes, MADV_DONTNEED);
      memory_ = nullptr;
    }
  }
  arrays_.clear();
  static_bytes_ = 0;
  dynamic_bytes_ = dynamic_bytes;
  limit_bytes_ = limit_bytes;
  dynamic_used_ = false;
}

void* SharedMemory::static_array(const void* declaration, std::size_t bytes,
                                 std::size_t alignment) {
  for (const Array& array : arrays_)
    if (array.declaration == declaration) return array.memory;
  alignment = std::max(alignment, kLeastAlignment);
  const std::size_t gaps = arrays_.size() * kGap;
  const std::size_t begin = (static_bytes_ + gaps + alignment - 1) / alignment * alignment;
  const std::size_t end = begin - gaps + bytes;
  if (end > kStaticSharedBytes || end + dynamic_bytes_ > limit_bytes_) return nullptr;
  if (arrays_.size() == kMaxArrays) return nullptr;
  reserve();
  std::byte* memory = memory_ + begin;
  unpoison(memory, bytes);
  note_live(memory, bytes);
  fill_unwritten(memory, bytes);
  static_bytes_ = end;
  arrays_.push_back({declaration, memory});
  return memory;
}

void* SharedMemory::dynamic() {
  reserve();
  std::byte* memory = memory_ + kDynamic;
  if (!dynamic_used_) {
    unpoison(memory, dynamic_bytes_);
    note_live(memory, dynamic_bytes_);
    fill_unwritten(memory, dynamic_bytes_);
    dynamic_used_ = true;
  }
  return memory;
}

}  // namespace ringrad::sim
