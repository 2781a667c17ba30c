#include "ringrad/sim/kernel.h"

#include <algorithm>
#include <cstring>

#include "ringrad/sim/shared_memory.h"

namespace ringrad::sim {
namespace {

constexpr unsigned kThreadsPerMultiprocessor = 2048;
constexpr unsigned kMaxBlocksPerMultiprocessor = 32;
constexpr std::size_t kSharedBytesPerMultiprocessor = kMaxSharedBytes + 1024;
constexpr std::size_t kSharedBytesOfTheSystem = 1024;  // in each block

}  // namespace

unsigned blocks_per_multiprocessor(unsigned threads_per_block, std::size_t dynamic_shared_bytes) {
  if (threads_per_block == 0 || threads_per_block > kMaxThreadsPerBlock) return 0;
  const unsigned warps = (threads_per_block + kWarpSize - 1) / kWarpSize;
  const std::size_t by_shared_memory =
      kSharedBytesPerMultiprocessor / (dynamic_shared_bytes + kSharedBytesOfTheSystem);
  return static_cast<unsigned>(
      std::min<std::size_t>({kMaxBlocksPerMultiprocessor,
                             kThreadsPerMultiprocessor / (warps * kWarpSize), by_shared_memory}));
}

// Counts whole warps.
void Residents::add(const Kernel& kernel, std::uint64_t num_blocks) {
  const unsigned warps = (kernel.threads_per_block() + kWarpSize - 1) / kWarpSize;
  threads += num_blocks * warps * kWarpSize;
  blocks += num_blocks;
  shared_bytes += num_blocks * (kernel.dynamic_shared_bytes + kSharedBytesOfTheSystem);
}

bool Residents::have_room_for_block_of(const Kernel& kernel) const {
  Residents then = *this;
  then.add(kernel, 1);
  return then.threads <= kNumMultiprocessors * kThreadsPerMultiprocessor &&
         then.blocks <= kNumMultiprocessors * kMaxBlocksPerMultiprocessor &&
         then.shared_bytes <= kNumMultiprocessors * kSharedBytesPerMultiprocessor;
}

std::string to_string(const Site& site) {
  const char* slash = std::strrchr(site.file, '/');
  return std::string(slash ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

std::string to_string(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

}  // namespace ringrad::sim
