// GroupMemory: how the ranks of one machine reach each other's memory. One per rank.
//
//     threads      everything is in one address space: all bases are 0
//     processes    each rank has a heap that the others see, each at an address of its own
//
// So a place in rank r's memory has a name that all ranks understand, its distance from r's base; and
// base_of(r) + distance is its address here.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"
#include "parallel/comm/process_state.h"

namespace ringrad {

class GroupMemory {
 public:
  virtual ~GroupMemory() = default;

  /// The memory that all ranks share, where the group keeps its state.
  virtual std::byte* shared() const = 0;
  virtual std::uintptr_t base_of(int rank) const = 0;

  /// True if other ranks can reach p, which is this rank's.
  virtual bool is_visible(const void* p) const = 0;
  /// Memory of this rank that others can reach. Throws: OutOfMemoryError
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) = 0;

  /// True if the rank's process has ended. Not if it is a thread: those end with a word.
  virtual bool has_died(int rank) const = 0;
  /// What the rank's process does. `running` if the rank is a thread.
  virtual ProcessState state_of(int /*rank*/) const { return ProcessState::running; }
  /// Sends SIGKILL to the rank's process, and says on stderr that the rank `reason`. Once has_died(rank) is true, the
  /// process writes to nobody's memory. A rank that is a thread is left alone.
  virtual void expel(int /*rank*/, const char* /*reason*/) noexcept {}
  virtual bool is_one_process() const = 0;

  /// How many processors the ranks may use together: with as many ranks or fewer, one that waits may spin.
  virtual int num_processors() const = 0;

  /// Keeps memory until nobody has this object, or one made of it, any more: for what others read after its
  /// rank has left.
  virtual void keep(std::shared_ptr<std::byte> memory) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(memory));
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<std::byte>> kept_;
};

}  // namespace ringrad
