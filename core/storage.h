// Storage: bytes on a device that all views share, with the version that shows in-place changes to
// the tape.
//
// A storage either owns its bytes or keeps their owner alive: the caller's memory, or a larger
// storage that it is a slice of. A slice has its own version, because parameters packed into one
// arena change one by one.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/ref.h"

namespace ringrad {

class Storage : public RefCounted, public Pooled {
 public:
  /// Owns `bytes` uninitialised bytes.
  Storage(std::size_t bytes, Device device, Where where);

  /// Refers to memory that `owner` keeps alive.
  Storage(void* data, std::size_t bytes, Device device, std::shared_ptr<void> owner);

  ~Storage();

  /// Bytes [offset, offset + bytes) of `whole` as a storage with its own version.
  static Ref<Storage> slice(const Ref<Storage>& whole, std::size_t offset, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// The storage this one is a slice of, if any.
  const Ref<Storage>& whole() const { return whole_; }

  /// Replaces this slice's memory by `memory`, which holds a copy of it, without counting a change.
  /// All tensors of this slice move. The old memory lives as long as this slice, since arrays of
  /// other libraries may still refer to it.
  void move_to(Ref<Storage> memory);

  /// Another number after each in-place change; a tensor saved for backward remembers it.
  std::uint32_t version() const { return static_cast<std::uint32_t>(change_); }
  /// The number of the latest in-place change here, in one count for all storages of the process; 0
  /// before the first. Compared with num_changes() at some event, it tells which of the two came
  /// first.
  std::uint64_t change() const { return change_; }
  static std::uint64_t num_changes() { return num_changes_.load(std::memory_order_relaxed); }
  /// The line of the latest in-place change.
  const Where& changed_at() const { return changed_at_; }
  void mark_changed(Where where) {
    change_ = num_changes_.fetch_add(1, std::memory_order_relaxed) + 1;
    changed_at_ = where;
  }

 private:
  static constexpr std::size_t kMostBytes = ~std::size_t{0} >> 1;
  static inline std::atomic<std::uint64_t> num_changes_{0};

  // In this order the fields fit into one cache line.
  Device device_;
  std::uint64_t change_ = 0;
  std::byte* data_;
  std::size_t bytes_ : 63;
  bool owns_ : 1;
  Where changed_at_;
  Ref<Storage> whole_;
  std::shared_ptr<void> owner_;
};
static_assert(sizeof(Storage) == 64);

}  // namespace ringrad
