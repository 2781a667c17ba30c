// ChunkTable: a value for each chunk of each rank of a plan.
//
// Most plans touch most chunks of most ranks, and have a plain table. In an all_to_all among n
// ranks there are n^2 chunks, and each rank touches 2n of them: 131,072 values for 256 ranks, where
// a plain table has 16,777,216. For such a plan only values that were written take memory.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

template <class T>
class ChunkTable {
 public:
  /// All values are `initial` until another one is written.
  explicit ChunkTable(const CollectivePlan& plan, T initial = {})
      : num_chunks_(plan.num_chunks), initial_(std::move(initial)) {
    const auto steps = static_cast<std::int64_t>(plan.steps.size());
    const std::int64_t all = std::int64_t{plan.world_size} * plan.num_chunks;
    if (all <= 4 * steps) plain_.assign(static_cast<std::size_t>(all), initial_);
  }

  T& operator()(int rank, int chunk) {
    const std::int64_t key = this->key(rank, chunk);
    if (!plain_.empty()) return plain_[static_cast<std::size_t>(key)];
    return written_.try_emplace(key, initial_).first->second;
  }
  const T& operator()(int rank, int chunk) const {
    const std::int64_t key = this->key(rank, chunk);
    if (!plain_.empty()) return plain_[static_cast<std::size_t>(key)];
    const auto found = written_.find(key);
    return found == written_.end() ? initial_ : found->second;
  }

 private:
  std::int64_t key(int rank, int chunk) const { return std::int64_t{rank} * num_chunks_ + chunk; }

  std::int64_t num_chunks_;
  T initial_;
  std::vector<T> plain_;  // empty: only what was written is kept
  std::unordered_map<std::int64_t, T> written_;
};

}  // namespace ringrad
