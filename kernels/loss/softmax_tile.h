// Tiles: how the CPU softmax and cross entropy arrange rows, so that every step is a loop over 16
// lanes.
//
// A row is the input of one softmax: `size` elements, `stride` apart. A tile is (depth, 16) values
// in the type of the arithmetic, made from rows in one of two ways:
//
//     short or strided rows: 16 side by side       long rows: one, folded into lines of 16
//
//          row 0  row 1 ... row 15                       x0   x1  ... x15
//            x0     x0        x0                         x16  x17 ... x31
//            x1     x1        x1                         ...          pad
//
// Along a lane, sums and maxima are plain vertical loops. In the second form the 16 partial results
// are combined once, at the end, and broadcast to the lanes again. The first form makes softmax
// over ten classes, or over the channels of an image, as fast as over a long row. No exp ever runs
// in a scalar loop tail.

#pragma once

#include <algorithm>
#include <cstdint>

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

inline constexpr std::int64_t kLanes = 16;

/// One number per lane.
template <class Math>
struct Lanes {
  alignas(64) Math value[kLanes];

  Math& operator[](std::int64_t lane) { return value[lane]; }
  Math operator[](std::int64_t lane) const { return value[lane]; }
};

/// The rows of a dense tensor along one axis, and their division into tiles.
class Tiles {
 public:
  Tiles(const Tensor& x, int axis)
      : size_(x.shape()[axis]),
        stride_(size_ == 1 ? 1 : x.strides()[axis]),
        num_rows_(size_ == 0 ? 0 : x.numel() / size_),
        folded_(stride_ == 1 && size_ >= 4 * kLanes) {}

  /// Number of tiles, the unit of work that threads share.
  std::int64_t count() const { return folded_ ? num_rows_ : (num_rows_ + kLanes - 1) / kLanes; }
  /// Lines of 16 values in a tile.
  std::int64_t depth() const { return folded_ ? (size_ + kLanes - 1) / kLanes : size_; }
  /// True if a tile is one row.
  bool folded() const { return folded_; }

  /// Extent of the axis.
  std::int64_t size() const { return size_; }
  std::int64_t first_row(std::int64_t tile) const { return folded_ ? tile : tile * kLanes; }
  /// The place in a tile of element i of the row in the given lane.
  std::int64_t place(std::int64_t i, std::int64_t lane) const {
    return folded_ ? i : i * kLanes + lane;
  }
  std::int64_t rows_in(std::int64_t tile) const {
    return folded_ ? 1 : std::min(kLanes, num_rows_ - tile * kLanes);
  }

  /// Tiles per thread that justify starting one: about 16 thousand exponentials.
  std::int64_t grain() const { return 1 + (1 << 14) / (1 + depth() * kLanes); }

  /// Reads a tile. `pad` fills the places after a folded row's end; lanes without a row read 0.
  template <class T, class Math>
  void load(std::int64_t tile, const T* x, Math pad, Math* values) const {
    if (folded_) {
      const T* row = x + tile * size_;
      for (std::int64_t i = 0; i < size_; ++i) values[i] = static_cast<Math>(row[i]);
      for (std::int64_t i = size_; i < depth() * kLanes; ++i) values[i] = pad;
    } else if (lanes_adjoin(tile)) {
      const T* first = x + offset_of(tile * kLanes);
      for (std::int64_t k = 0; k < size_; ++k)
#pragma omp simd
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
          values[k * kLanes + lane] = static_cast<Math>(first[k * stride_ + lane]);
    } else {
      if (rows_in(tile) < kLanes) std::fill_n(values, depth() * kLanes, Math{0});
      for_each_row(tile, [&](std::int64_t lane, std::int64_t offset) {
        for (std::int64_t k = 0; k < size_; ++k)
          values[k * kLanes + lane] = static_cast<Math>(x[offset + k * stride_]);
      });
    }
  }

  /// Writes a tile back, to the places that `load` read.
  template <class T, class Math>
  void store(std::int64_t tile, const Math* values, T* y) const {
    if (folded_) {
      T* row = y + tile * size_;
      for (std::int64_t i = 0; i < size_; ++i) row[i] = static_cast<T>(values[i]);
    } else if (lanes_adjoin(tile)) {
      T* first = y + offset_of(tile * kLanes);
      for (std::int64_t k = 0; k < size_; ++k)
#pragma omp simd
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
          first[k * stride_ + lane] = static_cast<T>(values[k * kLanes + lane]);
    } else {
      for_each_row(tile, [&](std::int64_t lane, std::int64_t offset) {
        for (std::int64_t k = 0; k < size_; ++k)
          y[offset + k * stride_] = static_cast<T>(values[k * kLanes + lane]);
      });
    }
  }

  /// The results of a tile's rows from those of its lanes, which are partial if the tile is folded.
  template <class Math, class Combine>
  Lanes<Math> combine(const Math (&partial)[kLanes], Combine combine) const {
    Lanes<Math> result;
    std::copy_n(partial, kLanes, result.value);
    if (!folded_) return result;
    Math whole = partial[0];
    for (std::int64_t lane = 1; lane < kLanes; ++lane) whole = combine(whole, partial[lane]);
    std::fill_n(result.value, kLanes, whole);
    return result;
  }

 private:
  // Row r starts at element r % stride of block r / stride, where a block is size * stride
  // elements.
  std::int64_t offset_of(std::int64_t row) const {
    return stride_ == 1 ? row * size_ : row / stride_ * size_ * stride_ + row % stride_;
  }

  bool lanes_adjoin(std::int64_t tile) const {
    return stride_ > 1 && rows_in(tile) == kLanes && tile * kLanes % stride_ + kLanes <= stride_;
  }

  template <class Visit>
  void for_each_row(std::int64_t tile, Visit visit) const {
    for (std::int64_t lane = 0; lane < rows_in(tile); ++lane)
      visit(lane, offset_of(tile * kLanes + lane));
  }

  std::int64_t size_;
  std::int64_t stride_;
  std::int64_t num_rows_;
  bool folded_;
};

/// The largest value of each row. NaNs are ignored here; they make the sum of exponentials NaN.
template <class Math>
Lanes<Math> row_maxima(const Tiles& tiles, const Math* values) {
  Math partial[kLanes];  // a plain local array stays in registers
  std::copy_n(values, kLanes, partial);
  const std::int64_t depth = tiles.depth();
  for (std::int64_t k = 1; k < depth; ++k)
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const Math value = values[k * kLanes + lane];
      partial[lane] = value > partial[lane] ? value : partial[lane];
    }
  return tiles.combine(partial, [](Math a, Math b) { return b > a ? b : a; });
}

/// The sum over each row of term(i, lane), where i counts the tile's values.
template <class Math, class Term>
Lanes<Math> row_sums(const Tiles& tiles, Term term) {
  Math partial[kLanes] = {};
  const std::int64_t depth = tiles.depth();
  for (std::int64_t k = 0; k < depth; ++k)
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      partial[lane] += term(k * kLanes + lane, lane);
  return tiles.combine(partial, [](Math a, Math b) { return a + b; });
}

/// values[i] = f(i, lane) for the whole tile.
template <class Math, class F>
void for_each_value(const Tiles& tiles, Math* values, F f) {
  for (std::int64_t k = 0; k < tiles.depth(); ++k)
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      values[k * kLanes + lane] = f(k * kLanes + lane, lane);
}

}  // namespace ringrad::kernels
