#include <atomic>

#include "ringrad/sim/block.h"
#include "ringrad/sim/device/device.h"
#include "ringrad/sim/device/warp.h"

namespace ringrad::sim::device {

int barrier(bool vote, const char* operation, Site site) {
  return Block::current()->barrier(vote, operation, site);
}

void spin(Site site) { Block::current()->spin(site); }

void note_progress() {
  if (Block* block = Block::current()) block->note_progress();
}

void trap(Site site) {
  Block& block = *Block::current();
  block.fail(cudaErrorLaunchFailure, [&block, site] {
    return block.describe_thread() + " called __trap() at " + to_string(site);
  });
}

void* shared_array(const void* declaration, std::size_t bytes, std::size_t alignment) {
  return Block::current()->shared_array(declaration, bytes, alignment);
}

void* dynamic_shared() { return Block::current()->dynamic_shared(); }

// Threads run one at a time and see each other's writes at once; only the compiler could reorder.
void fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

Exchanged exchange(unsigned mask, std::uint64_t value, const char* operation, Site site) {
  return Block::current()->exchange(mask, value, operation, site);
}

void sync_warp(unsigned mask, Site site) { Block::current()->sync_warp(mask, site); }

unsigned lane() { return Block::current()->lane(); }

unsigned active_lanes() { return Block::current()->active_lanes(); }

}  // namespace ringrad::sim::device
