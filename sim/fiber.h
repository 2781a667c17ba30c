// Fiber: a stack to run on, which can be left in the middle of a function and entered again.
//
//     Fiber here;                        the stack that the caller runs on
//     Fiber other(512 * 1024, &entry);
//     here.switch_to(other);             runs entry() until it calls other.switch_to(here)
//
// A switch saves and loads the callee-saved registers and nothing else, which takes a few
// nanoseconds; the floating-point modes are the same for all fibers of a thread. Below a guarded
// stack lies an equally large inaccessible range, so that an overflow is a fault instead of damage
// elsewhere. Each guard takes a memory mapping; a process can have some tens of thousands of them.
//
// Not thread-safe. For x86-64 and 64-bit Arm.

#pragma once

#include <cstddef>

namespace ringrad::sim {

class Fiber {
 public:
  /// Stands for the stack that the calling thread runs on.
  Fiber();
  /// A new stack; entry() starts at the first switch to it and must never return.
  /// Throws: std::bad_alloc
  Fiber(std::size_t stack_bytes, bool guarded, void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves this fiber, on which the caller must run, and continues where `next` was left. Returns
  /// when another fiber switches back.
  void switch_to(Fiber& next);

  /// Leaves this fiber for good: the running function is abandoned without running destructors.
  [[noreturn]] void leave_for(Fiber& next);

  /// Makes a fiber that was left for good start again at entry().
  void restart(void (*entry)());

  /// entry() must call this first.
  static void begin();

  /// True if a stack overflow would touch this address.
  bool guard_contains(const void* address) const;

 private:
  void* stack_pointer_ = nullptr;
  std::byte* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  std::size_t guard_bytes_ = 0;
  bool owns_stack_ = false;
  void* asan_fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
};

}  // namespace ringrad::sim
