#include "ringrad/core/gpu/block_pool.h"

#include <utility>

namespace ringrad {

Block* BlockPool::take(const PoolKey& pool, std::size_t bytes, std::size_t smallest_rest) {
  Block wanted{.pool = pool, .address = nullptr, .bytes = bytes};
  const auto found = free_.lower_bound(&wanted);
  if (found == free_.end() || !((*found)->pool == pool)) return nullptr;
  Block* block = *found;
  free_.erase(found);
  block->free = false;
  split(block, bytes, smallest_rest);
  return block;
}

Block* BlockPool::add(const Block& segment, std::size_t bytes, std::size_t smallest_rest) {
  auto made = std::make_unique<Block>(segment);
  Block* block = made.get();
  blocks_.emplace(block->address, std::move(made));
  split(block, bytes, smallest_rest);
  return block;
}

void BlockPool::split(Block* block, std::size_t bytes, std::size_t smallest_rest) {
  const std::size_t rest = block->bytes - bytes;
  if (!block->divisible || rest < smallest_rest) return;
  auto made = std::make_unique<Block>(Block{.pool = block->pool,
                                            .address = block->address + bytes,
                                            .bytes = rest,
                                            .free = true,
                                            .previous = block,
                                            .next = block->next,
                                            .stream_owner = block->stream_owner});
  Block* right = made.get();
  if (right->next) right->next->previous = right;
  block->next = right;
  block->bytes = bytes;
  blocks_.emplace(right->address, std::move(made));
  free_.insert(right);
}

void BlockPool::release(Block* block) {
  block->free = true;
  block->operation = "";
  block->streams.clear();
  free_.insert(block);
  if (block->next && block->next->free) merge(block, block->next);
  if (block->previous && block->previous->free) merge(block->previous, block);
}

// REQUIRES: both blocks are free
void BlockPool::merge(Block* left, Block* right) {
  free_.erase(left);
  free_.erase(right);
  left->bytes += right->bytes;
  left->next = right->next;
  if (left->next) left->next->previous = left;
  blocks_.erase(right->address);
  free_.insert(left);
}

void BlockPool::remove(Block* block) {
  RINGRAD_ASSERT(!block->previous && !block->next);
  if (block->free) free_.erase(block);
  blocks_.erase(block->address);
}

std::vector<Block*> BlockPool::free_segments(const void* owner) const {
  std::vector<Block*> whole;
  for (Block* block : free_)
    if (block->pool.owner == owner && !block->previous && !block->next) whole.push_back(block);
  return whole;
}

void BlockPool::disown(const void* owner) {
  for (const auto& [address, block] : blocks_) {
    if (block->pool.owner != owner) continue;
    if (block->free) free_.erase(block.get());
    block->pool.owner = nullptr;
    if (block->free) free_.insert(block.get());
  }
}

Block* BlockPool::find(void* address) const {
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? nullptr : found->second.get();
}

}  // namespace ringrad
