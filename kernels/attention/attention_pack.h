// Operands of attention on a CPU, packed for products of tiles (attention_tile.h): in the type of
// the arithmetic, padded with zeros, so that no loop over them has a tail.
//
//     rows      (count, width)              as in the tensor
//     panels    (panels, columns, kPanel)   kPanel rows of the tensor next to each other, for each
//                                           column: what a step of a register tile loads
//
// Functions marked RINGRAD_INLINE must be called from ones marked RINGRAD_CLONES. Private to
// kernels/attention.

#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/register_tile.h"

#define RINGRAD_INLINE [[gnu::always_inline]] inline

namespace ringrad::kernels::attention_tile {

template <class M>
inline constexpr std::int64_t kLanes = Vector<M>::kLanes;
template <class M>
inline constexpr std::int64_t kPanel = 2 * kLanes<M>;  // keys

constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

/// One head's matrix (rows, columns) in a tensor of any strides.
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, columns, row, column;  // extents, then strides

  Matrix(const Tensor& x, std::int64_t b, std::int64_t h)
      : data(x.data<T>() + b * x.strides()[0] + h * x.strides()[1]),
        rows(x.shape()[2]),
        columns(x.shape()[3]),
        row(x.strides()[2]),
        column(x.strides()[3]) {}
};

/// to (count, width) = factor * rows [first, first + count) of x; zeros outside of x.
template <class M, class T>
RINGRAD_INLINE void pack_rows(const Matrix<T>& x, std::int64_t first, std::int64_t count,
                              std::int64_t width, M factor, M* to) {
  for (std::int64_t i = 0; i < count; ++i, to += width) {
    const std::int64_t columns = first + i < x.rows ? x.columns : 0;
    const T* from = x.data + (first + i) * x.row;
    if (x.column == 1)
      for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<M>(from[j]) * factor;
    else
      for (std::int64_t j = 0; j < columns; ++j)
        to[j] = static_cast<M>(from[j * x.column]) * factor;
    for (std::int64_t j = columns; j < width; ++j) to[j] = 0;
  }
}

/// The kLanes elements from `from` on, converted.
template <class T, class M = MathType<T>>
RINGRAD_INLINE void load_vector(const T* from, typename Vector<M>::type& v) {
  if constexpr (std::is_same_v<T, M>) {
    v = Vector<M>::at(from);
  } else {
    M values[kLanes<M>];
    for (int lane = 0; lane < kLanes<M>; ++lane) values[lane] = static_cast<M>(from[lane]);
    v = Vector<M>::at(values);
  }
}

/// Rows in the type of the arithmetic, `row` apart.
template <class M>
struct RowsOf {
  const M* data;
  std::int64_t row;
};

/// Rows [first, first + count) of x: in place if they can be used as they lie, else a copy in
/// `packed` (count, width).
template <class M, class T>
RINGRAD_INLINE RowsOf<M> rows_of(const Matrix<T>& x, std::int64_t first, std::int64_t count,
                                 std::int64_t width, M* packed) {
  if constexpr (std::is_same_v<T, M>)
    if (x.column == 1 && first + count <= x.rows) return {x.data + first * x.row, x.row};
  pack_rows<M>(x, first, count, width, M{1}, packed);
  return {packed, width};
}

/// to (panels, columns, kPanel) = from (count, columns), transposed within each panel. Compiled
/// once, in attention_tile_cpu.cc. REQUIRES: count is a multiple of kPanel
void pack_panels(RowsOf<float> from, std::int64_t columns, std::int64_t count, float* to);
void pack_panels(RowsOf<double> from, std::int64_t columns, std::int64_t count, double* to);

/// x's rows [first, first + count) = factor * from (count, width).
template <class M, class T>
RINGRAD_INLINE void unpack_rows(const M* from, std::int64_t width, std::int64_t first,
                                std::int64_t count, M factor, const Matrix<T>& x) {
  for (std::int64_t i = 0; i < std::min(count, x.rows - first); ++i, from += width) {
    T* to = x.data + (first + i) * x.row;
    if (x.column == 1)
      for (std::int64_t j = 0; j < x.columns; ++j) to[j] = static_cast<T>(from[j] * factor);
    else
      for (std::int64_t j = 0; j < x.columns; ++j)
        to[j * x.column] = static_cast<T>(from[j] * factor);
  }
}

}  // namespace ringrad::kernels::attention_tile
