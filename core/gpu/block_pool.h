// Blocks of memory cut from segments: the bookkeeping of allocator_cuda.h. It calls no CUDA
// function; a block only carries the streams that use it, for the allocator.
//
//     segment  | used 3 MiB | free 1 MiB | used 8 MiB | free 8 MiB |
//
// A request takes the smallest free block that holds it and splits off the rest; a freed block
// merges with free neighbours. A block stays in its pool until disown(), so the next user of a
// block may rely on what its pool promises about earlier users.
//
// Not for concurrent use.

#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {

/// The key of a pool. Blocks of one pool may be reused in order without any synchronisation.
struct PoolKey {
  const void* owner;  // of a private pool; null for the common one
  cudaStream_t stream;
  bool small;

  auto tie() const { return std::tuple(owner, stream, small); }
  bool operator==(const PoolKey& other) const { return tie() == other.tie(); }
};

struct Block {
  PoolKey pool;
  std::byte* address;
  std::size_t bytes;
  bool divisible = true;  ///< may be split and merged
  bool free = false;
  Block *previous = nullptr, *next = nullptr;  ///< neighbours in the segment
  const char* operation = "";                  ///< the operation and line that made it, for reports
  Where where = {};
  std::shared_ptr<void> stream_owner = {};  ///< keeps pool.stream alive
  std::vector<Stream> streams = {};         ///< other streams that use it
};

class BlockPool {
 public:
  /// Takes the smallest free block of the pool that holds `bytes`; null if there is none. A rest of
  /// at least `smallest_rest` bytes is split off.
  Block* take(const PoolKey& pool, std::size_t bytes, std::size_t smallest_rest);

  /// Adds a fresh segment as one block in use, and splits off its rest as take() does.
  Block* add(const Block& segment, std::size_t bytes, std::size_t smallest_rest);

  /// Puts a block back and merges it with free neighbours.
  void release(Block* block);

  /// Forgets a block that is a whole segment.
  void remove(Block* block);

  /// The free blocks that are whole segments of this owner's pools.
  std::vector<Block*> free_segments(const void* owner) const;

  /// Moves all blocks of the owner's pools to the common ones.
  void disown(const void* owner);

  /// The block that begins at `address`, or null.
  Block* find(void* address) const;

  template <class Body>
  void for_each(Body body) const {
    for (const auto& [address, block] : blocks_) body(*block);
  }

 private:
  struct SmallestFirst {
    static auto key(const Block* block) {
      return std::tuple_cat(block->pool.tie(), std::tuple(block->bytes, block->address));
    }
    bool operator()(const Block* a, const Block* b) const { return key(a) < key(b); }
  };

  void split(Block* block, std::size_t bytes, std::size_t smallest_rest);
  void merge(Block* left, Block* right);

  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;
  std::set<Block*, SmallestFirst> free_;
};

}  // namespace ringrad
