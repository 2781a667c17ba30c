// Kernel: one launch, as a value: what every thread runs, and how many threads there are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringrad/sim/device/runtime_types.h"
#include "ringrad/sim/device/site.h"
#include "ringrad/sim/sanitizers.h"

namespace ringrad::sim {

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kMaxThreadsPerBlock = 1024;
inline constexpr unsigned kNumMultiprocessors = 132;  // as on an H100

/// "(3, 0, 0)"
std::string to_string(uint3 index);

struct Kernel {
  std::string name;
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  std::size_t shared_limit_bytes = 48 * 1024;  // static and dynamic together
  int device = 0;
  std::function<void()> body;

  // The order between kernels, for ThreadSanitizer (sanitizers.h): each thread runs after `queued`
  // and all of `after`, and before everything that follows `done`.
  std::vector<std::shared_ptr<const Kernel>> after;
  SyncCell queued, done;

  // The running number of its first block (access_order.h); 0 until one has begun.
  mutable std::uint32_t first_block = 0;

  std::uint64_t num_blocks() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
  unsigned threads_per_block() const { return block.x * block.y * block.z; }
};

/// How many such blocks fit on one multiprocessor at the same time, given their threads and dynamic
/// shared memory; 0 if not even one does.
unsigned blocks_per_multiprocessor(unsigned threads_per_block, std::size_t dynamic_shared_bytes);

/// How many blocks of the kernel run at the same time, and so may wait for each other.
inline unsigned max_resident_blocks(const Kernel& kernel) {
  return kNumMultiprocessors *
         blocks_per_multiprocessor(kernel.threads_per_block(), kernel.dynamic_shared_bytes);
}

/// The resources that a device's resident blocks use, summed over its multiprocessors. The sum is
/// optimistic: blocks of different kernels may fit less well.
struct Residents {
  std::uint64_t threads = 0, blocks = 0, shared_bytes = 0;

  void add(const Kernel& kernel, std::uint64_t num_blocks);
  bool have_room_for_block_of(const Kernel& kernel) const;
};

/// Why a kernel was stopped: the error that the runtime returns from then on, and a report for the
/// user.
struct Fault {
  cudaError_t error = cudaSuccess;
  std::string message;
};

}  // namespace ringrad::sim
