// Copies from global to shared memory that a thread starts and later waits for, without holding the
// values in registers meanwhile. Private to kernels/*_cuda.cu.
//
//     AsyncCopies copies;
//     copies.start(&tile[0], x);      16 bytes
//     copies.start(&tile[1], y);
//     copies.commit();                these two are a group
//     ...
//     copies.wait<1>();               all groups but the newest 1 have arrived, for this thread
//     __syncthreads();                for all threads
//
// GPUs before sm_80 have no such copies: there the thread itself copies at once. In the simulator
// the bytes arrive as late as possible, at wait(), and until then their
// destination holds NaN. A kernel that does not wait therefore computes values that a test notices.

#pragma once

#include "ringrad/core/gpu/cuda.h"

namespace ringrad::kernels::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800

class AsyncCopies {
 public:
  __device__ void start(uint4* to, const void* from) {
    *to = from ? *static_cast<const uint4*>(from) : uint4{};
  }
  __device__ void commit() {}
  template <int kNewest>
  __device__ void wait() {}
};

#elif defined(__CUDACC__)

class AsyncCopies {
 public:
  /// 16 bytes from `from`, or zeros if it is null. REQUIRES: both are aligned to 16 bytes
  __device__ void start(uint4* to, const void* from) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = from ? 16 : 0;  // number of bytes read; the rest become 0
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(from), "r"(bytes)
                 : "memory");
  }
  __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kNewest>
  __device__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
  }
};

#else

class AsyncCopies {
 public:
  void start(uint4* to, const void* from) {
    *to = {~0u, ~0u, ~0u, ~0u};
    copies_[num_started_++ % kMost] = {to, from};
    if (num_started_ - num_arrived_ > kMost) __trap();
  }
  void commit() { ends_[num_groups_++ % kMostGroups] = num_started_; }
  template <int kNewest>
  void wait() {
    static_assert(kNewest < kMostGroups);
    if (num_groups_ <= kNewest) return;
    const unsigned end = ends_[(num_groups_ - 1 - kNewest) % kMostGroups];
    for (; num_arrived_ < end; ++num_arrived_) {
      const Copy& copy = copies_[num_arrived_ % kMost];
      *copy.to = copy.from ? *static_cast<const uint4*>(copy.from) : uint4{};
    }
  }

 private:
  struct Copy {
    uint4* to;
    const void* from;
  };
  static constexpr unsigned kMost = 64, kMostGroups = 8;  // in flight at once
  Copy copies_[kMost];
  unsigned ends_[kMostGroups];  // ends of groups, as numbers of copies
  unsigned num_started_ = 0, num_arrived_ = 0, num_groups_ = 0;
};

#endif

}  // namespace ringrad::kernels::cuda
