// The functions that GCC calls for each access in code compiled with -fsanitize=thread; their names
// and types are those of libsanitizer's tsan_interface.h. Such code runs on the host as well:
// templates that host code and kernels share.

#include "ringrad/sim/racecheck/access_check.h"

using namespace ringrad::sim;

namespace {

template <class T, class Operation>
T atomic(volatile T* p, AccessKind kind, const void* code, Operation operation) {
  check_access(const_cast<const T*>(p), sizeof(T), kind, code);
  return operation();
}

}  // namespace

#define CODE __builtin_return_address(0)

#define PLAIN(name, bytes, kind) \
  void name(const void* p) { check_access(p, bytes, AccessKind::kind, CODE); }

#define FETCH(bits, type, operation)                                                       \
  type __tsan_atomic##bits##_fetch_##operation(volatile type* p, type value, int) {        \
    return atomic(p, AccessKind::update, CODE,                                             \
                  [=] { return __atomic_fetch_##operation(p, value, __ATOMIC_SEQ_CST); }); \
  }

#define COMPARE_EXCHANGE(bits, type, strength)                                             \
  bool __tsan_atomic##bits##_compare_exchange_##strength(volatile type* p, type* expected, \
                                                         type value, int, int) {           \
    check_access(const_cast<const type*>(p), sizeof *p, AccessKind::update, CODE);         \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,        \
                                       __ATOMIC_SEQ_CST);                                  \
  }

#define ATOMIC(bits, type)                                                               \
  type __tsan_atomic##bits##_load(const volatile type* p, int) {                         \
    return atomic(const_cast<volatile type*>(p), AccessKind::atomic_read, CODE,          \
                  [=] { return __atomic_load_n(p, __ATOMIC_SEQ_CST); });                 \
  }                                                                                      \
  void __tsan_atomic##bits##_store(volatile type* p, type value, int) {                  \
    check_access(const_cast<const type*>(p), sizeof *p, AccessKind::atomic_write, CODE); \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                        \
  }                                                                                      \
  type __tsan_atomic##bits##_exchange(volatile type* p, type value, int) {               \
    return atomic(p, AccessKind::update, CODE,                                           \
                  [=] { return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST); });      \
  }                                                                                      \
  FETCH(bits, type, add)                                                                 \
  FETCH(bits, type, sub)                                                                 \
  FETCH(bits, type, and)                                                                 \
  FETCH(bits, type, or)                                                                  \
  FETCH(bits, type, xor)                                                                 \
  COMPARE_EXCHANGE(bits, type, strong)                                                   \
  COMPARE_EXCHANGE(bits, type, weak)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
// Virtual functions are host code.
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

PLAIN(__tsan_read1, 1, read)
PLAIN(__tsan_read2, 2, read)
PLAIN(__tsan_read4, 4, read)
PLAIN(__tsan_read8, 8, read)
PLAIN(__tsan_read16, 16, read)
PLAIN(__tsan_unaligned_read2, 2, read)
PLAIN(__tsan_unaligned_read4, 4, read)
PLAIN(__tsan_unaligned_read8, 8, read)
PLAIN(__tsan_unaligned_read16, 16, read)
PLAIN(__tsan_write1, 1, write)
PLAIN(__tsan_write2, 2, write)
PLAIN(__tsan_write4, 4, write)
PLAIN(__tsan_write8, 8, write)
PLAIN(__tsan_write16, 16, write)
PLAIN(__tsan_unaligned_write2, 2, write)
PLAIN(__tsan_unaligned_write4, 4, write)
PLAIN(__tsan_unaligned_write8, 8, write)
PLAIN(__tsan_unaligned_write16, 16, write)
void __tsan_read_range(const void* p, unsigned long bytes) {
  check_access(p, bytes, AccessKind::read, CODE);
}
void __tsan_write_range(const void* p, unsigned long bytes) {
  check_access(p, bytes, AccessKind::write, CODE);
}

ATOMIC(8, std::uint8_t)
ATOMIC(16, std::uint16_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)

}  // extern "C"
