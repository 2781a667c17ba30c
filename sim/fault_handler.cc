#include "ringrad/sim/fault_handler.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ringrad/sim/block.h"
#include "ringrad/sim/racecheck/access_check.h"
#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/scheduler.h"

namespace ringrad::sim {
namespace {

std::atomic<Memory*> guarded_memory = nullptr;
struct sigaction previous_action, previous_arithmetic_action;

// Whether the instruction that has faulted writes.
bool writes(const ucontext_t& context) {
#if defined(__x86_64__)
  constexpr auto kWriteFault = 2;  // bit of the page fault's error code
  return context.uc_mcontext.gregs[REG_ERR] & kWriteFault;
#else
  // The exception's syndrome is one of the records of the signal's frame.
  constexpr std::uint64_t kWriteNotRead = 1 << 6;
  const auto* record = reinterpret_cast<const _aarch64_ctx*>(context.uc_mcontext.__reserved);
  while (record->size > 0 && record->magic != ESR_MAGIC)
    record = reinterpret_cast<const _aarch64_ctx*>(reinterpret_cast<const std::byte*>(record) +
                                                   record->size);
  if (record->magic != ESR_MAGIC) return false;  // an emulator may leave it out
  return reinterpret_cast<const esr_context*>(record)->esr & kWriteNotRead;
#endif
}

std::string describe_access(const Memory& memory, const void* address, bool is_write) {
  return std::string(is_write ? "wrote to " : "read from ") + memory.describe(address);
}

std::string describe_fault(const Memory& memory, const Block& block, const void* address,
                           bool is_write) {
  const std::string thread = block.describe_thread();
  const std::string message = thread + " " + describe_access(memory, address, is_write);
  const auto owner = memory.device_of(address);
  if (!owner) return message + ", which no device owns";
  if (*owner != block.kernel().device && memory.complaint(address, 1).empty())
    return message + ", to which it has no peer access";
  return message;
}

// Stops the kernel whose thread made a forbidden access.
[[noreturn]] void fail_kernel(const Memory& memory, const void* address, bool is_write) {
  Block& block = *Block::current();
  if (block.thread().fiber.guard_contains(address))
    block.fail(cudaErrorHardwareStackError,
               [&block] { return block.describe_thread() + " has used up its stack"; });
  block.fail(cudaErrorIllegalAddress, [&memory, &block, address, is_write] {
    return describe_fault(memory, block, address, is_write);
  });
}

// --- Accesses that are checked (access_check.h) --------------------------------------------------

std::string describe_place(const Memory& memory, const Finding& finding) {
  return memory.device_of(finding.p) ? memory.describe(finding.p) : "in shared memory";
}

std::string describe_finding(const Memory& memory, const Block& block, const Finding& finding) {
  const Kernel& kernel = block.kernel();
  const std::string text =
      "kernel '" + kernel.name + "' on device " + std::to_string(kernel.device) + ", " +
      block.describe_thread(finding.access) + (finding.is_write ? " wrote " : " read ") +
      std::to_string(finding.bytes) + " bytes at " + source_line(finding.access.code);
  const std::string place = describe_place(memory, finding);
  switch (finding.kind) {
    case Finding::Kind::out_of_bounds:
      return text + ", outside of what is allocated: " + place;
    case Finding::Kind::unwritten:
      return text + ", which had never been written: " + place;
    case Finding::Kind::race:
      break;
  }
  return text + ", which " + block.describe_thread(finding.other) +
         (finding.other_is_write ? " wrote at " : " read at ") + source_line(finding.other.code) +
         "; nothing orders the two: " + place;
}

[[noreturn]] void fail_kernel(const Memory& memory, const Finding& finding) {
  Block& block = *Block::current();
  const bool is_outside = finding.kind == Finding::Kind::out_of_bounds;
  block.fail(is_outside ? cudaErrorIllegalAddress : cudaErrorLaunchFailure,
             [&memory, &block, finding] { return describe_finding(memory, block, finding); });
}

// --- Signals -------------------------------------------------------------------------------------

// Passes a fault that is not ours, or cannot be handled, to the previous handler. Without one the
// instruction faults again, and the system ends the process.
void hand_on(const struct sigaction& previous, int signal, siginfo_t* info, void* context) {
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(signal, info, context);
  else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    previous.sa_handler(signal);
  else
    sigaction(signal, &previous, nullptr);
}

// The interrupted code is a kernel or the program, never the simulator holding a lock: so the
// handler may lock, allocate, and leave for another stack.
void on_fault(int signal, siginfo_t* info, void* context) {
  Memory* memory = guarded_memory.load();
  const void* address = info->si_addr;
  const bool is_write = writes(*static_cast<ucontext_t*>(context));
  if (memory && Scheduler::runs_here()) {
    if (memory->open(address)) return;  // the instruction is retried
    if (Block::current()) fail_kernel(*memory, address, is_write);
  }
  if (memory && memory->device_of(address)) {
    const std::string message = "simulated CUDA: host code " +
                                describe_access(*memory, address, is_write) +
                                "; it must be copied with cudaMemcpy\n";
    if (write(STDERR_FILENO, message.data(), message.size()) < 0) {
      // Nothing more can be done: the signal alone ends the process.
    }
  }
  hand_on(previous_action, signal, info, context);
}

void on_arithmetic_fault(int signal, siginfo_t* info, void* context) {
  if (!Scheduler::runs_here() || !Block::current())
    return hand_on(previous_arithmetic_action, signal, info, context);
  Block& block = *Block::current();
  const bool integer = info->si_code == FPE_INTDIV;
  block.fail(cudaErrorLaunchFailure, [&block, integer] {
    return block.describe_thread() +
           (integer ? " divided an integer by zero"
                    : " computed with a value that was never written, or made a NaN from numbers");
  });
}

}  // namespace

void handle_faults_of(Memory* memory) {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    // NODEFER: a handler that leaves for another stack never returns to unblock the signal.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &previous_action);
    action.sa_sigaction = on_arithmetic_fault;
    sigaction(SIGFPE, &action, &previous_arithmetic_action);
    return true;
  }();
  static_cast<void>(installed);
  guarded_memory = memory;
  handle_findings([](const Finding& finding) { fail_kernel(*guarded_memory.load(), finding); });
}

void prepare_thread_for_faults() {
  if (kAsan) return;  // it installs its own stack, and would unmap ours at the thread's end
  constexpr std::size_t kBytes = 64 * 1024;
  struct AlternateStack {
    AlternateStack() {
      stack_t stack{};
      sigaltstack(nullptr, &stack);
      if (!(stack.ss_flags & SS_DISABLE)) return;  // the program has installed one
      memory = std::make_unique<char[]>(kBytes);
      stack = {};
      stack.ss_sp = memory.get();
      stack.ss_size = kBytes;
      sigaltstack(&stack, nullptr);
    }
    ~AlternateStack() {
      if (!memory) return;
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
    std::unique_ptr<char[]> memory;
  };
  static thread_local AlternateStack stack;
}

}  // namespace ringrad::sim
