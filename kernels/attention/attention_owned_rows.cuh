// Which rows of an attention a block of threads owns, and which rows of the other side they meet:
// for the kernels that compute tiles of scores. Private to kernels/attention/*_cuda.cu.

#pragma once

#include <cstdint>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/problem/attention_problem.h"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {

inline constexpr int kOwnedRows = 64;  // of a block of threads
inline constexpr int kOwners = 128;    // its threads

/// The rows that this block of threads, and within it this warp, owns. first <= last.
struct OwnedRows {
  std::int64_t b, h, first, last, warp_first;

  /// Blocks begin in the order of their numbers. If late_first, the blocks of a head begin with its
  /// last rows.
  __device__ OwnedRows(std::int64_t rows, std::int64_t heads, bool late_first) {
    // There are at most as many tiles, and heads, as blocks: below 2^31.
    const auto tiles = static_cast<unsigned>((rows + kOwnedRows - 1) / kOwnedRows);
    const auto num_heads = static_cast<unsigned>(heads);
    const unsigned head = blockIdx.x / tiles, place = blockIdx.x % tiles;
    b = head / num_heads;
    h = head % num_heads;
    first = std::int64_t{late_first ? tiles - 1 - place : place} * kOwnedRows;
    last = min(first + kOwnedRows, rows) - 1;
    warp_first = first + threadIdx.x / kWarp * 16;
  }

  __device__ bool warp_has_rows() const { return warp_first <= last; }
};

enum class Rows { queries, keys };  // what a block of threads owns; its steps visit the others

/// The keys that query i may attend to, or the queries that may attend to key i; none if there is
/// no row i. Both ends grow with i.
template <Rows kRows>
__device__ AttentionRange columns_of(const AttentionProblem& a, std::int64_t i) {
  if constexpr (kRows == Rows::queries) return i < a.T ? a.keys_of(i) : AttentionRange{0, 0};
  return i < a.S ? a.queries_of(i) : AttentionRange{0, 0};
}

/// A block of threads for each tile of `rows` rows of each head; `multiplications` in all.
inline LaunchConfig tile_per_block(const char* name, std::int64_t heads, std::int64_t rows,
                                   double multiplications) {
  return {.name = name,
          .grid = num_blocks(heads * ((rows + kOwnedRows - 1) / kOwnedRows), 1),
          .block = kOwners,
          .flops = 2 * multiplications};
}

}  // namespace ringrad::kernels::cuda
