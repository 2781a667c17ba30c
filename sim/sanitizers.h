// Tells the sanitizers about memory and threads whose creation they did not see; empty in other
// builds.
//
// Under ThreadSanitizer each simulated thread is a thread of its own, ordered only by what orders
// it on a GPU: barriers, shuffles, stream order, events, and the host's waiting. (A stack that a
// finished thread left is used again, and its two threads count as one: thread_pool.h.) The
// simulator's own locks and bookkeeping must not be seen, or everything would seem to be ordered.
// The simulator is therefore compiled without instrumentation. An Unseen hides the actions that the
// sanitizer would still notice.

#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#if defined(RINGRAD_SIM_TSAN)
extern "C" {
void __tsan_acquire(void* cell);
void __tsan_release(void* cell);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace ringrad::sim {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAsan = true;
inline void poison(const void* p, std::size_t bytes) { __asan_poison_memory_region(p, bytes); }
inline void unpoison(const void* p, std::size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
#else
inline constexpr bool kAsan = false;
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
#endif

/// An address that stands for an order: what a thread did before release(cell) happened before what
/// another thread does after acquire(cell). ThreadSanitizer distinguishes addresses only in units
/// of 8 bytes.
struct alignas(8) SyncCell {};

#if defined(RINGRAD_SIM_TSAN)
inline constexpr bool kTsan = true;
inline void acquire(const SyncCell& cell) { __tsan_acquire(const_cast<SyncCell*>(&cell)); }
inline void release(const SyncCell& cell) { __tsan_release(const_cast<SyncCell*>(&cell)); }

/// While it lives, the sanitizer ignores what the calling thread reads, writes, allocates and
/// locks.
class Unseen {
 public:
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// Fills memory with a 16-bit pattern, unseen by the sanitizer.
inline void fill_unseen(void* p, std::uint16_t pattern, std::size_t bytes) {
  std::size_t words = bytes / 2;
  asm volatile("rep stosw" : "+D"(p), "+c"(words) : "a"(pattern) : "memory");
  if (bytes % 2) asm volatile("movb %b1, (%0)" : : "r"(p), "q"(pattern) : "memory");
}

/// Maps memory at these addresses, or at unused ones if null, unseen by the sanitizer; null if
/// there is none.
inline void* map_unseen(void* at, std::size_t bytes) {
  const long result =
      syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}
#else
inline constexpr bool kTsan = false;
inline void acquire(const SyncCell&) {}
inline void release(const SyncCell&) {}
class Unseen {
 public:
  Unseen() {}  // keeps the compiler from calling such a variable unused
};
inline void fill_unseen(void* p, std::uint16_t pattern, std::size_t bytes) {
  auto* out = static_cast<char*>(p);
  for (std::size_t i = 0; i + 2 <= bytes; i += 2) std::memcpy(out + i, &pattern, 2);
  if (bytes % 2) std::memcpy(out + bytes - 1, &pattern, 1);
}
inline void* map_unseen(void* at, std::size_t bytes) {
  void* memory = mmap(at, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
#endif

/// For std::allocate_shared: any thread may drop the last reference without the sanitizer seeing
/// it.
template <class T>
struct UnseenAllocator {
  using value_type = T;

  UnseenAllocator() = default;
  template <class U>
  UnseenAllocator(const UnseenAllocator<U>&) {}

  T* allocate(std::size_t n) { return std::allocator<T>().allocate(n); }
  void deallocate(T* p, std::size_t n) {
    const Unseen unseen;
    std::allocator<T>().deallocate(p, n);
  }
  template <class U>
  void destroy(U* p) {
    const Unseen unseen;
    p->~U();
  }
  bool operator==(const UnseenAllocator&) const = default;
};

/// A lock_guard for the simulator's own data: the sanitizer sees nothing of what happens under it.
class QuietLock {
 public:
  explicit QuietLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  Unseen unseen_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace ringrad::sim
