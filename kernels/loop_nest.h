// LoopNest: the axes over which several tensors are traversed together, simplified to as few loops
// as possible.
//
//     y[i, j, k, l] = x[i, j, k, l]            shape           y strides         x strides
//                                              (8, 1, 4, 6)    (24, 24, 6, 1)    (24, 5, 6, 1)
//       without the axis of extent 1           (8, 4, 6)       (24, 6, 1)        (24, 6, 1)
//       ordered by y's strides, and merged     (192)           (1)               (1)
//
// Two neighbouring axes merge if, in every operand, one step of the outer axis is exactly as long
// as the whole inner axis. Most tensors end as one axis, and a loop over one such row is the
// fastest there is.
//
// A broadcast operand has stride 0 along the repeated axis. Only a source that is read backwards
// has negative strides (kernels/copy/flip.h); operand 0 never has.

#pragma once

#include <array>
#include <cstdint>

#include "ringrad/core/base/shape.h"

namespace ringrad::kernels {

template <int N>
struct LoopNest {
  using Offsets = std::array<std::int64_t, N>;  // one per operand, in elements

  int axes = 0;  // outermost first; 0 for a single element
  std::array<std::int64_t, kMaxDims> extents{};
  std::array<Offsets, kMaxDims> strides{};

  /// Extent and strides of the innermost axis, or those of one element.
  std::int64_t row_extent() const { return axes > 0 ? extents[axes - 1u] : 1; }
  Offsets row_strides() const { return axes > 0 ? strides[axes - 1u] : Offsets{}; }

  /// Number of times the innermost axis is traversed.
  std::int64_t num_rows() const {
    std::int64_t product = 1;
    for (int i = 0; i + 1 < axes; ++i) product *= extents[static_cast<unsigned>(i)];
    return product;
  }

  /// The offset at which the given row starts in each operand.
  Offsets row_offsets(std::int64_t row) const;

  /// The offset of an element in each operand, counted with the innermost axis fastest. Index is an
  /// unsigned type that holds the number of elements: a GPU divides 32-bit numbers much faster than
  /// 64-bit ones.
  template <class Index>
  constexpr Offsets element_offsets(Index element) const {
    Offsets offsets{};
    for (int i = axes - 1; i >= 0; --i) {
      const auto axis = static_cast<unsigned>(i);
      Index index = element;
      if (i > 0) {  // at the outermost axis there is nothing left to divide
        index = element % static_cast<Index>(extents[axis]);
        element /= static_cast<Index>(extents[axis]);
      }
      for (unsigned k = 0; k < N; ++k)
        offsets[k] += static_cast<std::int64_t>(index) * strides[axis][k];
    }
    return offsets;
  }
};

/// The nest over `shape`, which must hold at least one element, ordered by operand 0's strides,
/// then by operand 1's, and so on, largest outermost.
template <int N>
LoopNest<N> make_loop_nest(const Shape& shape, const std::array<const Strides*, N>& strides);

/// Calls body(offsets) with the offsets at which rows [begin, end) start in each operand.
template <int N, class Body>
void for_each_row(const LoopNest<N>& nest, std::int64_t begin, std::int64_t end, Body&& body);

// Implementation details follow.

template <int N>
LoopNest<N> make_loop_nest(const Shape& shape, const std::array<const Strides*, N>& strides) {
  LoopNest<N> nest;
  // Insertion sort while reading the axes: there are at most eight, and most come in order.
  // Comparing strides lexicographically gives the documented order.
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    typename LoopNest<N>::Offsets step;
    for (unsigned k = 0; k < N; ++k) step[k] = (*strides[k])[axis];
    auto at = static_cast<unsigned>(nest.axes++);
    for (; at > 0 && nest.strides[at - 1] < step; --at) {
      nest.extents[at] = nest.extents[at - 1];
      nest.strides[at] = nest.strides[at - 1];
    }
    nest.extents[at] = shape[axis];
    nest.strides[at] = step;
  }
  unsigned last = 0;  // the axis that the next inner one may merge into
  for (unsigned i = 1; i < static_cast<unsigned>(nest.axes); ++i) {
    bool merges = true;
    for (unsigned k = 0; k < N; ++k)
      merges &= nest.strides[last][k] == nest.strides[i][k] * nest.extents[i];
    if (merges) {
      nest.extents[last] *= nest.extents[i];
    } else {
      ++last;
      nest.extents[last] = nest.extents[i];
    }
    nest.strides[last] = nest.strides[i];
  }
  if (nest.axes > 0) nest.axes = static_cast<int>(last) + 1;
  return nest;
}

template <int N>
typename LoopNest<N>::Offsets LoopNest<N>::row_offsets(std::int64_t row) const {
  Offsets offsets{};
  for (int i = axes - 2; i >= 0 && row > 0; --i) {
    const auto axis = static_cast<unsigned>(i);
    const std::int64_t index = i > 0 ? row % extents[axis] : row;
    for (unsigned k = 0; k < N; ++k) offsets[k] += index * strides[axis][k];
    if (i > 0) row /= extents[axis];
  }
  return offsets;
}

template <int N, class Body>
void for_each_row(const LoopNest<N>& nest, std::int64_t begin, std::int64_t end, Body&& body) {
  if (begin >= end) return;
  typename LoopNest<N>::Offsets offsets = nest.row_offsets(begin);
  std::array<std::int64_t, kMaxDims> index{};
  std::int64_t rest = begin;
  for (int i = nest.axes - 2; i >= 0 && rest > 0; --i) {
    const auto axis = static_cast<unsigned>(i);
    index[axis] = rest % nest.extents[axis];
    rest /= nest.extents[axis];
  }
  for (std::int64_t row = begin;;) {
    body(offsets);
    if (++row == end) return;
    // Like an odometer: the innermost wheel that does not turn over ends the step.
    for (int i = nest.axes - 2; i >= 0; --i) {
      const auto axis = static_cast<unsigned>(i);
      for (unsigned k = 0; k < N; ++k) offsets[k] += nest.strides[axis][k];
      if (++index[axis] < nest.extents[axis]) break;
      for (unsigned k = 0; k < N; ++k) offsets[k] -= nest.strides[axis][k] * nest.extents[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace ringrad::kernels
