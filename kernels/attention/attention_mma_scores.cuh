// Attention on tensor cores: which threads compute which scores, and which scores count. Private to
// kernels/attention/attention_mma_*_cuda.cu.
//
//     block of threads                OwnedRows      64 queries, or 64 keys, of a head
//     its loop                        KeySteps       the keys that any of its queries attends to
//     a lane's numbers in a step      ScorePlace     positions, options, mask
//
// A warp skips the steps that none of its rows attends to.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>

#include "ringrad/kernels/attention/attention_mma.cuh"
#include "ringrad/kernels/attention/attention_owned_rows.cuh"
#include "ringrad/kernels/attention/attention_scores.cuh"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {

/// Goes through the keys and values that some of the owned queries attend to. While a step is
/// computed, the copies for the next one are in flight.
template <class T, int kD>
class KeySteps {
 public:
  static constexpr int kKeys = 32;            // of a step
  using Tiles = uint4[2][2][kKeys * kD / 8];  // of two steps: keys, values

  __device__ KeySteps(const AttentionProblem& a, const OwnedRows& owned, const Heads<const T>& k,
                      const Heads<const T>& v, Tiles& tiles)
      : keys_(k, owned.b, owned.h / a.group(), a.S, a.D),
        values_(v, owned.b, owned.h / a.group(), a.S, a.Dv),
        begin_(a.keys_of(owned.first).begin / kKeys * kKeys),
        end_(a.keys_of(owned.last).end),
        tiles_(tiles) {
    start(begin_, 0);
  }

  /// body(first key, tile of keys, tile of values) for each step. All threads take part.
  template <class Body>
  __device__ void run(Body body) {
    int stage = 0;
    for (std::int64_t s0 = begin_; s0 < end_; s0 += kKeys, stage ^= 1) {
      copies_.wait<0>();
      __syncthreads();  // this step has arrived, and all are done with the one before it
      start(s0 + kKeys, stage ^ 1);
      body(s0, tiles_[stage][0], tiles_[stage][1]);
    }
  }

 private:
  __device__ void start(std::int64_t s0, int stage) {
    if (s0 < end_) {
      start_copies<kKeys, kD>(copies_, keys_, s0, tiles_[stage][0]);
      start_copies<kKeys, kD>(copies_, values_, s0, tiles_[stage][1]);
    }
    copies_.commit();
  }

  HeadRows<const T> keys_, values_;
  std::int64_t begin_, end_;
  Tiles& tiles_;
  AsyncCopies copies_;
};

/// Where a lane's scores are, and which of them count.
template <Rows kRows, int kColumns>
struct ScorePlace {
  std::int64_t b, h, row, column;  // of the lane's first score
  int begin[2], end[2];            // columns that row g + 8 * i attends to, counted from `column`

  /// The warp's 16 rows from first_row on, and the columns from first_column on.
  __device__ ScorePlace(const AttentionProblem& a, std::int64_t batch, std::int64_t head,
                        std::int64_t first_row, std::int64_t first_column)
      : b(batch),
        h(head),
        row(first_row + threadIdx.x % 32 / 4),
        column(first_column + threadIdx.x % 4 * 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const AttentionRange range = columns_of<kRows>(a, row + 8 * i);
      const auto inside = [&](std::int64_t x) {
        return static_cast<int>(std::clamp<std::int64_t>(x - column, 0, kColumns));
      };
      begin[i] = inside(range.begin);
      end[i] = inside(range.end);
    }
  }

  /// True if any lane of the warp has a score that counts. All lanes take part.
  __device__ bool has_work() const {
    return __any_sync(kAllLanes, begin[0] < end[0] || begin[1] < end[1]) != 0;
  }

  /// Turns products of queries and keys into scores, as powers of two; -inf for those that do not
  /// count.
  __device__ void finish(const ScoreRules<float>& rules, Blocks<kColumns / 16>& x) const {
    constexpr float kLog2e = std::numbers::log2e_v<float>;
    constexpr int kLast = kColumns - 7;  // of the lane's columns
    const auto scale = static_cast<float>(rules.a.scale);
    const bool all_count = max(begin[0], begin[1]) == 0 && min(end[0], end[1]) > kLast;
    if (all_count && !rules.allowed && !rules.added) {
      for_each_number<kColumns / 16>(
          [&](int j, int half, int e, int, int) { x[j][half][e] *= scale * kLog2e; });
      return;
    }
    const bool owns_queries = kRows == Rows::queries;
    const std::int64_t place =
        owns_queries ? rules.mask_place(b, h, row, column) : rules.mask_place(b, h, column, row);
    const std::int64_t down = rules.strides[owns_queries ? 2 : 3];
    const std::int64_t right = rules.strides[owns_queries ? 3 : 2];
    for_each_number<kColumns / 16>([&](int j, int half, int e, int i, int c) {
      float& value = x[j][half][e];
      value = c >= begin[i] && c < end[i]
                  ? as_power_of_two(rules.masked(scale * value, place + 8 * i * down + c * right))
                  : -std::numeric_limits<float>::infinity();
    });
  }
};

}  // namespace ringrad::kernels::cuda
