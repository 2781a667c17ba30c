// SharedHeap: memory of one process that others on this machine map, each at its own address.
//
//     process A   heap [ .... tensor .... ]     memory without a name: a file descriptor of A,
//     process B   view [ .... tensor .... ]     which others open through /proc while A lives
//
// Since it has no name, the memory is freed when the last process that maps it ends, however that
// happens. Addresses are reserved at once. Memory is allocated on first write, and kept for reuse
// until the heap ends.
//
// Only processes of one user on one machine that see each other's process numbers can share.

#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/block_pool.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/own_process.h"

namespace ringrad {

/// Address space of a heap in bytes: more than it will hold.
inline constexpr std::size_t kDefaultHeapBytes = std::size_t{64} << 30;

/// A range of memory that other processes also map.
class SharedMapping {
 public:
  SharedMapping(int file, std::size_t bytes, Where where);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  bool contains(const void* p) const {
    return p >= begin_ && p < static_cast<const void*>(begin_ + bytes_);
  }

 private:
  std::byte* begin_;
  std::size_t bytes_;
};

/// Thread-safe.
class SharedHeap {
 public:
  /// Throws: OutOfMemoryError if the system gives no such memory
  explicit SharedHeap(std::size_t bytes = kDefaultHeapBytes, Where where = Where::current());
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  /// Aligned to 128 bytes, and not initialised.
  ///
  /// Throws: OutOfMemoryError; CollectiveError in a forked child, whose list of free blocks is a
  ///         copy
  std::byte* allocate(std::size_t bytes, Where where = Where::current());
  /// Does nothing in a forked child.
  void release(std::byte* address);

  const SharedMapping& memory() const { return memory_; }

  /// The name by which open() finds it: one line of text.
  std::string name() const;

  /// Another process's heap.
  ///
  /// Throws: CollectiveError, saying why, if it cannot be opened, or is not the heap that was named
  static std::unique_ptr<SharedMapping> open(const std::string& name,
                                             Where where = Where::current());

 private:
  const Descriptor file_;
  SharedMapping memory_;
  std::mutex mutex_;
  BlockPool blocks_;  // guarded by mutex_
  const OwnProcess in_own_process_;
};

}  // namespace ringrad
