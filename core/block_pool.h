// Blocks of memory cut from segments: the bookkeeping of allocator_cuda.h. It calls no function of CUDA; blocks
// carry the streams that use them, for the allocator.
//
//     segment  | used 3 MiB | free 1 MiB | used 8 MiB | free 8 MiB |
//
// A request takes the smallest free block that holds it and splits off the rest; a freed block merges
// with free neighbours. A block stays in its pool until disown(), so whoever gets a block may rely on
// what its pool promises about the users before.
//
// Not for concurrent use.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/stream.h"

namespace ringrad {

/// Blocks of one pool may follow each other without any synchronisation.
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
  const char* operation = "";                  ///< what made it, and where, for reports
  Where where = {};
  std::shared_ptr<void> stream_owner = {};  ///< keeps pool.stream alive
  std::vector<Stream> streams = {};         ///< others that use it
};

class BlockPool {
 public:
  /// The smallest free block of the pool that holds `bytes`, in use from now on, cut to size if the
  /// rest is at least `smallest_rest`; null if there is none.
  Block* take(const PoolKey& pool, std::size_t bytes, std::size_t smallest_rest);

  /// A fresh segment as one block in use, cut to size likewise.
  Block* add(const Block& segment, std::size_t bytes, std::size_t smallest_rest);

  /// Puts a block back and merges it with free neighbours.
  void release(Block* block);

  /// Forgets a block that is a whole segment.
  void remove(Block* block);

  /// Free blocks that are whole segments of pools of this owner.
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
