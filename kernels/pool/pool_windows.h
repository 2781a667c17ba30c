// Which inputs belong to which output of a pooling, as arithmetic shared by CPU loops and GPU
// kernels. Private to kernels/pool*.

#pragma once

#include <algorithm>
#include <cstdint>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/divisor.h"

namespace ringrad::kernels {

/// The windows along one axis: output i gets inputs [begin(i), end(i)). The inverse: input h
/// belongs to outputs [first_output(h), end_output(h)).
///
///     sliding     origin(i) = i * stride - padding, `kernel` long, cut off at the ends of the axis
///     adaptive    floor(i * extent / outputs) to ceil((i + 1) * extent / outputs); the formula is
///                 its own inverse, with extent and outputs exchanged
template <class Int>
struct PoolWindows {
  Divisor<Int> extent;   ///< inputs: H or W
  Divisor<Int> outputs;  ///< P or Q
  Divisor<Int> stride;
  Int kernel = 0;  ///< 0 for adaptive windows
  Int padding = 0;
  bool count_padding = false;

  constexpr bool is_adaptive() const { return kernel == 0; }

  /// Start of the window before it is cut off: its place 0.
  constexpr Int origin(Int i) const {
    return is_adaptive() ? i * extent / outputs : i * stride - padding;
  }
  constexpr Int begin(Int i) const { return std::max<Int>(origin(i), 0); }
  constexpr Int end(Int i) const {
    return is_adaptive() ? ((i + 1) * extent + outputs - 1) / outputs
                         : std::min<Int>(origin(i) + kernel, extent);
  }
  /// The number of inputs that a mean divides by.
  constexpr Int count(Int i) const { return count_padding ? kernel : end(i) - begin(i); }

  constexpr Int first_output(Int h) const {
    if (is_adaptive()) return h * outputs / extent;
    return h + padding < kernel ? 0 : (h + padding - kernel) / stride + 1;
  }
  constexpr Int end_output(Int h) const {
    if (is_adaptive()) return ((h + 1) * outputs + extent - 1) / extent;
    return std::min<Int>((h + padding) / stride + 1, outputs);
  }

  /// The same windows with another integer type.
  template <class To>
  constexpr PoolWindows<To> as() const {
    const auto to = [](Int number) { return static_cast<To>(number); };
    return {to(extent), to(outputs), to(stride), to(kernel), to(padding), count_padding};
  }
};

/// True if a value replaces the largest so far: the first of equal values stays, a NaN wins.
template <class T>
constexpr bool beats(T candidate, T best) {
  return candidate > best || candidate != candidate;
}

/// Images as the loops see them: (images, H, W, C), channels innermost. A contiguous (B, C, H, W)
/// tensor also has this form, with B * C images of one channel, so one set of loops serves both
/// memory orders.
struct PoolGeometry {
  std::int64_t images = 0, C = 0;
  PoolWindows<std::int64_t> rows, columns;
  std::int64_t place_width = 0;  ///< place = row of the window * place_width + column

  std::int64_t H() const { return rows.extent; }
  std::int64_t W() const { return columns.extent; }
  std::int64_t P() const { return rows.outputs; }
  std::int64_t Q() const { return columns.outputs; }
  /// True for 2x2 windows that tile the image. Most nets use this pooling, and only it has its own
  /// loops, which read and write everything once.
  bool is_two_by_two() const {
    const auto tiles = [](const PoolWindows<std::int64_t>& windows) {
      return windows.kernel == 2 && windows.stride == 2 && windows.padding == 0 &&
             windows.extent == 2 * windows.outputs;
    };
    return tiles(rows) && tiles(columns);
  }

  std::int64_t num_inputs() const { return images * H() * W() * C; }
  std::int64_t num_outputs() const { return images * P() * Q() * C; }
};

// The loops and the kernels behind pool.h.
//
// REQUIRES: arguments are checked. Values have one floating dtype, on CPUs float32 or float64;
// places are uint8 or int32. All tensors have the memory order that the geometry describes, without
// gaps.

namespace cpu {

void max_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, const Tensor& places,
              Where where);
void max_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& places,
                       const Tensor& grad_x, Where where);
void max_pool_gather(const PoolGeometry& g, const Tensor& x, const Tensor& places, const Tensor& y,
                     Where where);

void avg_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, Where where);
void avg_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where);

}  // namespace cpu

namespace cuda {

void max_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, const Tensor& places,
              Where where);
void max_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& places,
                       const Tensor& grad_x, Where where);
void max_pool_gather(const PoolGeometry& g, const Tensor& x, const Tensor& places, const Tensor& y,
                     Where where);

void avg_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, Where where);
void avg_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
