// The threads of simulated blocks, and the fibers on which they run; block.h explains when a thread
// needs a fiber of its own.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ringrad/sim/device/indices.h"
#include "ringrad/sim/device/site.h"
#include "ringrad/sim/fiber.h"

namespace ringrad::sim {

class Block;

/// One thread of a block, on a fiber.
struct Thread {
  explicit Thread(bool guarded);

  Fiber fiber;
  Block* block = nullptr;
  unsigned index = 0;  // in the block: x + y * blockDim.x + z * blockDim.x * blockDim.y
  uint3 id{};
  const char* waits_in = nullptr;  // null: running or ready
  Site waits_at;
  Thread* next = nullptr;  // in a ThreadList
};

/// First come, first served.
class ThreadList {
 public:
  bool empty() const { return !first_; }
  void push(Thread& thread);
  void push_front(Thread& thread);
  Thread* pop();
  /// Moves all of `other` to the end.
  void append(ThreadList& other);

 private:
  Thread* first_ = nullptr;
  Thread* last_ = nullptr;
};

/// A pool of fibers for reuse.
class ThreadPool {
 public:
  /// Null if the system gives no more stacks.
  Thread* take();
  void put(Thread& thread);
  /// Calls visit(thread) for each thread that belongs to the block.
  template <class Visit>
  void for_each_of(const Block& block, Visit&& visit) {
    for (const auto& thread : all_)
      if (thread->block == &block) visit(*thread);
  }

 private:
  std::vector<std::unique_ptr<Thread>> all_;
  ThreadList free_;
  std::size_t num_free_ = 0;
};

// Implementation details follow.

inline void ThreadList::push(Thread& thread) {
  thread.next = nullptr;
  (last_ ? last_->next : first_) = &thread;
  last_ = &thread;
}

inline void ThreadList::push_front(Thread& thread) {
  thread.next = first_;
  first_ = &thread;
  if (!last_) last_ = &thread;
}

inline Thread* ThreadList::pop() {
  Thread* thread = first_;
  if (!thread) return nullptr;
  first_ = thread->next;
  if (!first_) last_ = nullptr;
  return thread;
}

inline void ThreadList::append(ThreadList& other) {
  if (other.empty()) return;
  (last_ ? last_->next : first_) = other.first_;
  last_ = other.last_;
  other = {};
}

}  // namespace ringrad::sim
