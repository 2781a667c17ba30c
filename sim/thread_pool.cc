#include "ringrad/sim/thread_pool.h"

#include <new>

#include "ringrad/sim/block.h"
#include "ringrad/sim/sanitizers.h"

namespace ringrad::sim {
namespace {

// As much local memory as CUDA gives a thread. Only touched pages cost memory.
constexpr std::size_t kStackBytes = 512 * 1024;
constexpr std::size_t kMaxGuardedStacks = 16 * 1024;

// ThreadSanitizer treats one fiber as one thread. Different threads, even of successive blocks,
// should therefore run on different fibers; making one takes a millisecond.
constexpr std::size_t kFreshFibers = kTsan ? 128 : 0;

}  // namespace

Thread::Thread(bool guarded) : fiber(kStackBytes, guarded, &Block::run_threads) {}

Thread* ThreadPool::take() {
  if (num_free_ > kFreshFibers) {
    --num_free_;
    return free_.pop();
  }
  try {
    return all_.emplace_back(std::make_unique<Thread>(all_.size() < kMaxGuardedStacks)).get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// The fiber used last has the warmest stack.
void ThreadPool::put(Thread& thread) {
  thread.block = nullptr;
  kTsan ? free_.push(thread) : free_.push_front(thread);
  ++num_free_;
}

}  // namespace ringrad::sim
