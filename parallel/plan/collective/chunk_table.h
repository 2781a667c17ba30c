// ChunkTable: a value for each chunk of each rank of a plan. Only values that were written take
// memory.
//
// In an all_to_all among n ranks there are n^2 chunks, and each rank touches 2n of them: 131,072
// values for 256 ranks, where a full table has 16,777,216.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

template <class T>
class ChunkTable {
 public:
  /// All values are `initial` until another one is written.
  explicit ChunkTable(const CollectivePlan& plan, T initial = {})
      : num_chunks_(plan.num_chunks), initial_(std::move(initial)) {}

  T& operator()(int rank, int chunk) {
    return values_.try_emplace(key(rank, chunk), initial_).first->second;
  }
  const T& operator()(int rank, int chunk) const {
    const auto found = values_.find(key(rank, chunk));
    return found == values_.end() ? initial_ : found->second;
  }

 private:
  std::int64_t key(int rank, int chunk) const { return std::int64_t{rank} * num_chunks_ + chunk; }

  std::int64_t num_chunks_;
  T initial_;
  std::unordered_map<std::int64_t, T> values_;
};

}  // namespace ringrad
