// Rows of neighbours, moved 16 bytes at a time wherever they begin, by some lanes of a warp or by a
// whole block. Private to kernels/*_cuda.cu.
//
//     memory    |. . . .|. . . .|. . . .|. . . .|        packs of 16 bytes, here of 4 elements
//     row             x-----------------x                begins 3 elements into its first pack
//
// A pack inside the row moves as a whole. In the first and the last pack, only the elements of the
// row move. So rows of any length, 50257 as well as 50304, run at memory bandwidth.

#pragma once

#include <cstdint>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {

/// Elements per pack.
template <class T>
inline constexpr int kPack = 16 / sizeof(T);

/// Number of packs, in the type of the arithmetic, that `bytes` of registers hold.
template <class T>
constexpr int packs_in(int bytes) {
  return bytes / static_cast<int>(kPack<T> * sizeof(MathType<T>));
}

/// The location of a row in tensors of T with equal layouts. Index counts the elements of a row:
/// int saves registers for rows that are kept in registers.
template <class T, class Index = std::int64_t>
class Row {
 public:
  static constexpr int V = kPack<T>;

  /// Elements [begin, begin + size).
  __device__ Row(std::int64_t begin, Index size)
      : first_(begin / V), before_(static_cast<int>(begin % V)), end_(before_ + size) {}

  /// Packs that hold a part of the row; 0 for an empty row that begins at 0.
  __device__ Index packs() const { return (end_ + V - 1) / V; }

  /// The position in the row of a pack's first element; negative if the first pack begins before
  /// the row.
  __device__ Index column(Index pack) const { return pack * V - before_; }

  /// True if all elements of a pack belong to the row.
  __device__ bool is_whole(Index pack) const { return pack * V >= before_ && pack * V + V <= end_; }

  /// True if element i of a pack belongs to the row.
  __device__ bool holds(Index pack, int i) const {
    return pack * V + i >= before_ && pack * V + i < end_;
  }

  /// `otherwise` replaces elements outside the row, also in packs after its end.
  /// REQUIRES: data, the tensor's, is aligned to 16 bytes; likewise in store()
  template <class Math>
  __device__ void load(const T* data, Index pack, Math otherwise, Math (&values)[V]) const {
    if (is_whole(pack)) {
      const auto whole = reinterpret_cast<const Pack<T, V>*>(data)[first_ + pack];
#pragma unroll
      for (int i = 0; i < V; ++i) values[i] = static_cast<Math>(whole.values[i]);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i)
        values[i] = holds(pack, i) ? static_cast<Math>(data[(first_ + pack) * V + i]) : otherwise;
    }
  }

  template <class Math>
  __device__ void store(T* data, Index pack, const Math (&values)[V]) const {
    if (is_whole(pack)) {
      Pack<T, V> whole;
#pragma unroll
      for (int i = 0; i < V; ++i) whole.values[i] = T(values[i]);
      reinterpret_cast<Pack<T, V>*>(data)[first_ + pack] = whole;
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (holds(pack, i)) data[(first_ + pack) * V + i] = T(values[i]);
    }
  }

 private:
  std::int64_t first_;  // pack
  int before_;          // elements of that pack that do not belong to the row
  Index end_;           // end of the row, in elements from that pack's first
};

/// Blocks are (kThreads, kRowsPerBlock<kThreads>), where kThreads threads share a row.
template <int kThreads>
inline constexpr int kRowsPerBlock = kThreads < 128 ? 128 / kThreads : 1;
template <int kThreads>
inline constexpr int kRowBlock = kThreads < 128 ? 128 : kThreads;
template <int kThreads>
inline constexpr int kRowWarps = kThreads > static_cast<int>(kWarp) ? kThreads / kWarp : 1;

/// merge(a, b) over the kThreads threads that share a row: neighbouring lanes of a warp, or a
/// block. All lanes of the warp must take part. All threads get the result.
template <int kThreads, class T, class Merge>
__device__ T row_reduce(T value, Merge merge, T (&shared)[kRowWarps<kThreads>]) {
  if constexpr (kThreads <= static_cast<int>(kWarp))
    return warp_reduce<kThreads>(value, merge);
  else
    return block_reduce<kThreads>(value, merge, shared);
}

// -- Host -----------------------------------------------------------------------------------------

/// Maximum number of packs that a row of a contiguous tensor touches.
template <class T>
std::int64_t packs_per_row(std::int64_t size) {
  const std::int64_t before = size % kPack<T> == 0 ? 0 : kPack<T> - 1;
  return (before + size + kPack<T> - 1) / kPack<T>;
}

/// Calls body.operator()<kThreads>() with the fewest threads per row that can hold its packs,
/// kPacks each. Returns false if a row has more packs than kMost threads can hold.
template <int kPacks, int kMost, class Body>
bool dispatch_threads_per_row(std::int64_t packs, Body body) {
  const auto run = [&]<int kThreads>() {
    if (packs > kThreads * kPacks) return false;
    body.template operator()<kThreads>();
    return true;
  };
  if (run.template operator()<4>() || run.template operator()<32>()) return true;
  if constexpr (kMost > 32)
    return run.template operator()<128>() || run.template operator()<kMost>();
  return false;
}

template <int kThreads>
LaunchConfig threads_per_row(const char* name, std::int64_t rows, double bytes) {
  return {.name = name,
          .grid = num_blocks(rows, kRowsPerBlock<kThreads>),
          .block = {kThreads, kRowsPerBlock<kThreads>},
          .bytes = bytes};
}

inline double bytes_of(const Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(size_bytes(x.dtype()));
}

/// x itself, or a copy, aligned for Row. REQUIRES: x is dense
inline Tensor aligned(const Tensor& x, Where where) {
  return is_aligned(x, 16) ? x : clone(x, where);
}

}  // namespace ringrad::kernels::cuda
