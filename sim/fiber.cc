#include "ringrad/sim/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "ringrad/sim/sanitizers.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(RINGRAD_SIM_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

// It must end with `ret`: returning by a jump would make the processor mispredict every return up
// to the kernel, which was measured to double the cost of a barrier.
#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.type ringrad_sim_switch, @function
ringrad_sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size ringrad_sim_switch, .-ringrad_sim_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.type ringrad_sim_switch, %function
ringrad_sim_switch:
    sub sp, sp, #160
    stp x29, x30, [sp]
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x29, x30, [sp]
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size ringrad_sim_switch, .-ringrad_sim_switch
)");
#else
#error "sim/fiber.cc: stacks can be switched on x86-64 and 64-bit Arm only"
#endif
extern "C" void ringrad_sim_switch(void** saved_stack_pointer, void* next_stack_pointer);

namespace ringrad::sim {
namespace {

// What a switch finds on a stack that has not run yet: the registers that it loads, and where its
// `ret` goes, as if entry() had been called from nowhere.
void** first_frame(void** top, void (*entry)()) {
  auto* const to = reinterpret_cast<void*>(entry);
#if defined(__x86_64__)
  constexpr int kSavedRegisters = 6;
  *--top = nullptr;  // a return address, where debuggers stop; the ABI requires 16 k + 8 at entry
  *--top = to;
  return std::fill_n(top - kSavedRegisters, kSavedRegisters, nullptr) - kSavedRegisters;
#else
  constexpr int kSavedRegisters = 20;
  std::fill_n(top - kSavedRegisters, kSavedRegisters, nullptr);
  top[1 - kSavedRegisters] = to;  // the link register
  return top - kSavedRegisters;
#endif
}

#if defined(RINGRAD_SIM_TSAN)
constexpr unsigned kNoOrder = 1;  // a switch alone orders nothing
#endif

}  // namespace

Fiber::Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  pthread_attr_t attributes;
  void* stack = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &stack_bytes_);
  pthread_attr_destroy(&attributes);
  stack_ = static_cast<std::byte*>(stack);
#endif
#if defined(RINGRAD_SIM_TSAN)
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(std::size_t stack_bytes, bool guarded, void (*entry)())
    : stack_bytes_(stack_bytes), guard_bytes_(guarded ? stack_bytes : 0), owns_stack_(true) {
  const std::size_t bytes = guard_bytes_ + stack_bytes_;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (guarded && mprotect(memory, guard_bytes_, PROT_NONE) != 0) {
    munmap(memory, bytes);
    throw std::bad_alloc();
  }
  stack_ = static_cast<std::byte*>(memory) + guard_bytes_;
  restart(entry);
}

Fiber::~Fiber() {
#if defined(RINGRAD_SIM_TSAN)
  if (owns_stack_) __tsan_destroy_fiber(tsan_fiber_);
#endif
  if (!owns_stack_) return;
  unpoison(stack_, stack_bytes_);
  munmap(stack_ - guard_bytes_, guard_bytes_ + stack_bytes_);
}

void Fiber::restart(void (*entry)()) {
#if defined(RINGRAD_SIM_TSAN)
  if (tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
  unpoison(stack_, stack_bytes_);
  asan_fake_stack_ = nullptr;
  stack_pointer_ = first_frame(reinterpret_cast<void**>(stack_ + stack_bytes_ - 64), entry);
}

// No code may run between the notifications to the sanitizers and the switch.
void Fiber::switch_to(Fiber& next) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&asan_fake_stack_, next.stack_, next.stack_bytes_);
#endif
#if defined(RINGRAD_SIM_TSAN)
  __tsan_switch_to_fiber(next.tsan_fiber_, kNoOrder);
#endif
  ringrad_sim_switch(&stack_pointer_, next.stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(asan_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::leave_for(Fiber& next) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, next.stack_, next.stack_bytes_);
#endif
#if defined(RINGRAD_SIM_TSAN)
  __tsan_switch_to_fiber(next.tsan_fiber_, kNoOrder);
#endif
  ringrad_sim_switch(&stack_pointer_, next.stack_pointer_);
  __builtin_unreachable();
}

void Fiber::begin() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

bool Fiber::guard_contains(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= stack_ - guard_bytes_ && byte < stack_;
}

}  // namespace ringrad::sim
