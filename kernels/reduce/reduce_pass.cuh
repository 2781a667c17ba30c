// What a kernel of reduce_kernels.cuh computes: an operation on the elements of one pass. A finish
// converts the totals to results. Private to kernels/.
//
// An operation Op has Element, Partial, Total, kStart and merge as in reduce_ops.h, and also
//
//     using Center;                               data common to all elements of a result, if any
//     Center center(result) const;                for results of the first pass, part after part
//     Partial map(x, position, center) const;     position counts along the innermost reduced axis
//
// An Op may also name Merges, or have OneRow as a base (below): each saves compiled kernels. Finish
// has `out`, the memory for results, and converts a Total to a result.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringrad/core/dtype.h"
#include "ringrad/kernels/loop_nest.h"
#include "ringrad/kernels/reduce/reduce_plan.h"

namespace ringrad::kernels::cuda {

/// V: a thread loads at most 16 bytes at once, and its V totals take at most 64 bytes.
template <class Op>
inline constexpr int kPackSize = static_cast<int>(
    std::min({std::size_t{8}, 16 / sizeof(typename Op::Element), 64 / sizeof(typename Op::Total)}));

/// The type in which T is merged: bool as uint8, which needs no kernels of its own.
template <class T>
using Merged = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

/// An operation of reduce_ops.h that depends on the element only.
template <class Op>
struct Plain : Op {
  struct Center {};
  constexpr Center center(std::int64_t) const { return {}; }
  constexpr typename Op::Partial map(typename Op::Element x, std::int64_t, Center) const {
    return Op::map(x);
  }
};

/// The operation that merges as Op does: Op::Merges if there is one, which differs from Op only in
/// map(); else Op itself. Operations that merge alike share the kernels of later passes.
template <class Op>
struct MergesAs {
  using type = Op;
};
template <class Op>
requires requires { typename Op::Merges; }
struct MergesAs<Op> {
  using type = typename Op::Merges;
};

/// Op on the totals of an earlier pass.
template <class Op>
struct OverTotals {
  using Total = typename Op::Total;
  using Element = Total;
  using Partial = Total;
  struct Center {};
  static constexpr Total kStart = Op::kStart;

  static constexpr Total merge(Total a, Total b) { return Op::merge(a, b); }
  constexpr Center center(std::int64_t) const { return {}; }
  constexpr Total map(Total x, std::int64_t, Center) const { return x; }
};
template <class Op>
inline constexpr bool kIsOverTotals = false;
template <class Op>
inline constexpr bool kIsOverTotals<OverTotals<Op>> = true;

/// The base of operations that reduce neighbours only, to one result. They need no reduce_columns.
struct OneRow {};
template <class Op>
inline constexpr bool kIsOfOneRow = std::is_base_of_v<OneRow, Op>;

/// The results of sums and means.
template <class T>
struct Quotient {
  T* out;
  double divisor;
  constexpr T operator()(double total) const {
    return T(static_cast<MathType<T>>(total / divisor));
  }
};

/// Results that are the totals themselves.
template <class T>
struct Converted {
  T* out;
  template <class Total>
  constexpr T operator()(Total total) const {
    return T(total);
  }
};

/// Result i has kept position i / width and column i % width. It reduces
/// x[kept offset + r stride + column] for r < length.
struct ReducePass {
  LoopNest<1> kept;
  std::int64_t length, stride, width, num_results;

  /// The first pass of a plan: all reduced axes but the innermost become the outermost kept axes.
  explicit ReducePass(const ReducePlan& plan)
      : length(plan.reduced.row_extent()),
        stride(plan.reduced.row_strides()[0]),
        width(plan.width),
        num_results(plan.num_results * plan.reduced.num_rows()) {
    const auto append = [this](const LoopNest<1>& nest, int axes) {
      for (unsigned i = 0; i < static_cast<unsigned>(axes); ++i) {
        const auto at = static_cast<unsigned>(kept.axes++);
        kept.extents[at] = nest.extents[i];
        kept.strides[at] = nest.strides[i];
      }
    };
    append(plan.reduced, std::max(0, plan.reduced.axes - 1));
    append(plan.kept, plan.kept.axes - 1);  // without the axis of one element
  }

  std::int64_t num_kept() const { return num_results / width; }
};

}  // namespace ringrad::kernels::cuda
