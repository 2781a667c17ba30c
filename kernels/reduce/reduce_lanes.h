// One loop serves every reduction on a CPU. It merges rows of x, element by element, into a row of
// lanes.
//
//     columns are kept: a lane for each       a run is reduced: pieces of it are the rows
//
//     x      a0 a1 a2 a3                      x      a0 a1 a2 a3 a4 a5 a6 a7 a8 ...
//            b0 b1 b2 b3
//            c0 c1 c2 c3                      rows   a0 a1 a2 a3
//            -----------  merged down                a4 a5 a6 a7
//     lanes  y0 y1 y2 y3                             a8 ...       merged down, then across
//
// A few kept columns are repeated side by side in the lanes as often as they fit, and then also
// merged across.
//
// A lane merges at most kBlock rows in the arithmetic of x (float for the 16-bit types) before it
// is added to its total in a wider type.
//
// Private to kernels/reduce/*_cpu.cc.

#pragma once

#include <algorithm>
#include <cstdint>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/reduce/reduce_ops.h"

namespace ringrad::kernels::cpu::reduce_units {

using reduce_ops::kHasCenter;

inline constexpr std::int64_t kMaxLanes = 1024;  // totals take 8 KiB of the first-level cache
inline constexpr std::int64_t kRunLanes = 64;    // four vectors of 16 floats hide an addition
inline constexpr std::int64_t kBlock = 64;       // 64 / 4 dependent additions in float

// Element c of a row, mapped, with the center of its column if the operation has one.
template <class Op, class T = typename Op::Element, class P = typename Op::Partial>
P map_element(const T* x, [[maybe_unused]] const P* center, std::int64_t c) {
  if constexpr (kHasCenter<Op>)
    return Op::map(x[c], center[c]);
  else
    return Op::map(x[c]);
}

// partial[c] = merge of partial[c] and column c of all rows of x
template <class Op, class T = typename Op::Element, class P = typename Op::Partial>
RINGRAD_CLONES void merge_rows(P* __restrict partial, const T* __restrict x, std::int64_t rows,
                               std::int64_t row_stride, std::int64_t width,
                               const P* __restrict center) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {  // four rows per load and store of the lanes
    const T* x0 = x + r * row_stride;
    const T* x1 = x0 + row_stride;
    const T* x2 = x1 + row_stride;
    const T* x3 = x2 + row_stride;
    for (std::int64_t c = 0; c < width; ++c) {
      const P low = Op::merge(map_element<Op>(x0, center, c), map_element<Op>(x1, center, c));
      const P high = Op::merge(map_element<Op>(x2, center, c), map_element<Op>(x3, center, c));
      partial[c] = Op::merge(partial[c], Op::merge(low, high));
    }
  }
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < width; ++c)
      partial[c] = Op::merge(partial[c], map_element<Op>(x + r * row_stride, center, c));
}

template <class Op, class P = typename Op::Partial, class A = typename Op::Total>
RINGRAD_CLONES void flush_lanes(A* __restrict total, P* __restrict partial, std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; ++c) {
    total[c] = Op::merge(total[c], static_cast<A>(partial[c]));
    partial[c] = static_cast<P>(Op::kStart);
  }
}

// Merges groups of `width` lanes into the first group. REQUIRES: a power of two groups
template <class Op, class A = typename Op::Total>
RINGRAD_CLONES void fold_lanes(A* total, std::int64_t lanes, std::int64_t width) {
  for (std::int64_t half = lanes / 2; half >= width; half /= 2)
    for (std::int64_t c = 0; c < half; ++c) total[c] = Op::merge(total[c], total[c + half]);
}

// The lanes of one unit of work.
template <class Op>
class Lanes {
 public:
  using T = typename Op::Element;
  using Partial = typename Op::Partial;
  using Total = typename Op::Total;

  // For `length` rows of `width` columns. `center` holds `width` numbers, or is null if the
  // operation has no center.
  Lanes(std::int64_t width, std::int64_t length, bool rows_are_neighbours, const Partial* center)
      : width_(width), lanes_(width) {
    // Limits the lanes to a number that is filled a few times, because they must be merged at the
    // end.
    const std::int64_t most = std::min(kRunLanes, length * width / 4);
    if (rows_are_neighbours)
      while (2 * lanes_ <= most) lanes_ *= 2;
    std::fill_n(partial_, lanes_, static_cast<Partial>(Op::kStart));
    std::fill_n(total_, lanes_, Op::kStart);
    if constexpr (kHasCenter<Op>)
      for (std::int64_t c = 0; c < lanes_; ++c) center_[c] = center[c % width];
  }

  void merge(const T* x, std::int64_t rows, std::int64_t row_stride) {
    if (lanes_ == width_) return merge_long(x, rows, row_stride);
    const std::int64_t elements = rows * width_, whole = elements / lanes_;
    merge_long(x, whole, lanes_);
    const std::int64_t rest = elements - whole * lanes_;
    if (rest == 0) return;
    make_room();  // a run shorter than the lanes is all rest
    merge_rows<Op>(partial_, x + whole * lanes_, 1, 0, rest, center_);
    ++pending_;
  }

  // The reduction of all rows, `width` totals.
  const Total* finish() {
    flush_lanes<Op>(total_, partial_, lanes_);
    fold_lanes<Op>(total_, lanes_, width_);
    return total_;
  }

 private:
  // Makes the partials ready for one more row at least.
  void make_room() {
    if (pending_ < kBlock) return;
    flush_lanes<Op>(total_, partial_, lanes_);
    pending_ = 0;
  }

  void merge_long(const T* x, std::int64_t rows, std::int64_t row_stride) {
    while (rows > 0) {
      make_room();
      const std::int64_t taken = std::min(rows, kBlock - pending_);
      merge_rows<Op>(partial_, x, taken, row_stride, lanes_, center_);
      pending_ += taken;
      x += taken * row_stride;
      rows -= taken;
    }
  }

  std::int64_t width_, lanes_;
  std::int64_t pending_ = 0;  // rows merged into the partials
  alignas(64) Partial partial_[kMaxLanes];
  alignas(64) Partial center_[kHasCenter<Op> ? kMaxLanes : 1];
  alignas(64) Total total_[kMaxLanes];
};

}  // namespace ringrad::kernels::cpu::reduce_units
