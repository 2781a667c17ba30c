// GroupMemory: how the ranks of one machine reach each other's memory. One per rank.
//
//     threads      all memory is in one address space: all bases are 0
//     processes    each rank has a heap that the others map, each at its own address
//
// So the distance from rank r's base names a place in r's memory on all ranks, and
// base_of(r) + distance is its address in this process.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/process_state.h"

namespace ringrad {

class GroupMemory {
 public:
  virtual ~GroupMemory() = default;

  /// The memory that all ranks share, where the group keeps its state.
  virtual std::byte* shared() const = 0;
  virtual std::uintptr_t base_of(int rank) const = 0;

  /// True if other ranks can reach p, an address in this rank's memory.
  virtual bool is_visible(const void* p) const = 0;
  /// Memory of this rank that others can reach, aligned to 128 bytes, as a group's state is.
  /// Throws: OutOfMemoryError
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) = 0;

  /// True if the rank's process has ended. Always false for thread ranks, which report their own
  /// exit.
  virtual bool has_died(int rank) const = 0;
  /// False only if no rank's process has ended. Checks all ranks at once, however many they are.
  virtual bool has_any_died() const { return true; }
  /// The state of the rank's process. `running` if the rank is a thread.
  virtual ProcessState state_of(int /*rank*/) const { return ProcessState::running; }
  /// Sends SIGKILL to the rank's process, and reports on stderr that the rank `reason` (a
  /// predicate). Once has_died(rank) is true, the process writes to no rank's memory. Does nothing
  /// to a rank that is a thread.
  virtual void expel(int /*rank*/, const char* /*reason*/) noexcept {}
  virtual bool is_one_process() const = 0;

  /// How many processors the ranks may use together. If there are no more ranks than that, a
  /// waiting rank may spin.
  virtual int num_processors() const = 0;

  /// Keeps memory that other ranks read after its rank has left, until `is_done()` or until this
  /// object, and all objects made from it, are gone. Later calls of keep() ask is_done(), until it
  /// has returned true once.
  virtual void keep(std::shared_ptr<std::byte> memory, std::function<bool()> is_done) {
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [](const Kept& kept) { return kept.is_done(); });
    kept_.push_back({std::move(memory), std::move(is_done)});
  }

 private:
  struct Kept {
    std::shared_ptr<std::byte> memory;
    std::function<bool()> is_done;
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;  // guarded by mutex_
};

}  // namespace ringrad
