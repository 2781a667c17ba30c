// A convolution's images as virtual matrices, never stored, for gemm.cuh. Private to
// convolution_cuda.cu.
//
//     forward           y (pixels of y, k)  = patches (pixels of y, ursc)   * filter (ursc, k)
//     input gradient    dx (pixels of x, c) = gradients (pixels of x, ursk) * filter (ursk, c)
//     weight gradient   dw (k, ursc)        = dy (k, pixels of y)  * patches (pixels of y, ursc)
//
// Rows are pixels of all images, numbered in memory order. Columns are taps of the filter with the
// channels of one pixel innermost, which are neighbours in memory. Elements outside an image are 0.
// In a grouped convolution, each group is a separate product.

#pragma once

#include <cstdint>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/kernels/divisor.h"
#include "ringrad/kernels/problem/convolution_geometry.h"

namespace ringrad::kernels::cuda {

template <class Index>
struct Quotient {
  Index quotient, remainder;
};

template <class Index>
__device__ Quotient<Index> divide(Index n, const Divisor<Index>& by) {
  const Index quotient = n / by;
  return {quotient, n - quotient * by};
}

/// One axis of a convolution: D, Z and U; H, P and R; or W, Q and S.
template <class Index>
struct WindowAxis {
  Divisor<Index> inputs, outputs, taps, stride;
  Index padding, dilation;

  /// The input that a tap of an output reads; it may lie in the padding.
  __device__ Index input(Index output, Index tap) const {
    return output * stride + tap * dilation - padding;
  }
  /// The output whose tap reads an input; -1 if there is none.
  __device__ Index output(Index input, Index tap) const {
    const Index distance = input + padding - tap * dilation;
    if (distance < 0) return -1;
    const auto [place, rest] = divide(distance, stride);
    return rest == 0 && place < outputs ? place : -1;
  }
  /// True if an input lies inside x.
  __device__ bool has(Index input) const { return input >= 0 && input < inputs; }
};

/// ConvolutionGeometry for kernels. REQUIRES: no extent is 0
template <class Index>
struct WindowGeometry {
  Divisor<Index> B, C, K;
  Divisor<Index> inputs, outputs;  // of a group
  WindowAxis<Index> depth, rows, columns;
  bool is_flat;  // images need no arithmetic for the depth

  explicit WindowGeometry(const ConvolutionGeometry& g)
      : B(static_cast<Index>(g.B)),
        C(static_cast<Index>(g.C)),
        K(static_cast<Index>(g.K)),
        inputs(static_cast<Index>(g.group_inputs())),
        outputs(static_cast<Index>(g.group_outputs())),
        depth(axis(g, 0, g.D, g.Z, g.U)),
        rows(axis(g, 1, g.H, g.P, g.R)),
        columns(axis(g, 2, g.W, g.Q, g.S)),
        is_flat(g.is_flat()) {}

  /// A pixel of x (b, d, h, w) or of y (b, z, p, q).
  struct Pixel {
    Index b, depth, row, column;
  };
  __device__ Pixel pixel_of_x(Index number) const {
    return pixel(number, depth.inputs, rows.inputs, columns.inputs);
  }
  __device__ Pixel pixel_of_y(Index number) const {
    return pixel(number, depth.outputs, rows.outputs, columns.outputs);
  }

  /// A tap (u, r, s) of a filter.
  struct Tap {
    Index depth, row, column;
  };
  __device__ Tap tap(Index number) const {
    const auto [rest, s] = divide(number, columns.taps);
    if (is_flat) return {0, rest, s};
    const auto [u, r] = divide(rest, rows.taps);
    return {u, r, s};
  }
  __device__ Index taps() const { return depth.taps * rows.taps * columns.taps; }

  __device__ Index pixels_of_x() const { return B * depth.inputs * rows.inputs * columns.inputs; }
  __device__ Index pixels_of_y() const {
    return B * depth.outputs * rows.outputs * columns.outputs;
  }

  /// The input pixel that a tap of y's pixel reads, as the offset of its first channel; -1 if the
  /// pixel lies in the padding.
  __device__ std::int64_t input(const Pixel& y, const Tap& tap) const {
    const Index d = is_flat ? 0 : depth.input(y.depth, tap.depth);
    const Index h = rows.input(y.row, tap.row), w = columns.input(y.column, tap.column);
    const bool inside = depth.has(d) && rows.has(h) && columns.has(w);
    return inside
               ? std::int64_t{((y.b * depth.inputs + d) * rows.inputs + h) * columns.inputs + w} * C
               : -1;
  }

  /// The output pixel whose tap reads x's pixel, as the offset of its first channel; -1 if there is
  /// none.
  __device__ std::int64_t output(const Pixel& x, const Tap& tap) const {
    const Index z = is_flat ? 0 : depth.output(x.depth, tap.depth);
    const Index p = rows.output(x.row, tap.row), q = columns.output(x.column, tap.column);
    const bool exists = z >= 0 && p >= 0 && q >= 0;
    return exists ? std::int64_t{((x.b * depth.outputs + z) * rows.outputs + p) * columns.outputs +
                                 q} *
                        K
                  : -1;
  }

 private:
  static WindowAxis<Index> axis(const ConvolutionGeometry& g, unsigned i, std::int64_t inputs,
                                std::int64_t outputs, std::int64_t taps) {
    return {static_cast<Index>(inputs),
            static_cast<Index>(outputs),
            static_cast<Index>(taps),
            static_cast<Index>(g.options.stride[i]),
            static_cast<Index>(g.options.padding[i]),
            static_cast<Index>(g.options.dilation[i])};
  }

  __device__ Pixel pixel(Index number, const Divisor<Index>& planes, const Divisor<Index>& height,
                         const Divisor<Index>& width) const {
    const auto [row_of_all, column] = divide(number, width);
    const auto [plane, row] = divide(row_of_all, height);
    if (is_flat) return {plane, 0, row, column};
    const auto [b, depth_of_b] = divide(plane, planes);
    return {b, depth_of_b, row, column};
  }
};

/// The inputs that the taps of y's pixels read (i: pixels of y; k: (u, r, s, c) of a group's
/// filters), or, kBackward, the gradients of the outputs whose taps read x's pixels (i: pixels of
/// x; k: (u, r, s, k)).
template <class T, bool kBackward>
struct TapOperand {
  using Element = T;
  static constexpr bool kAlongK = true;

  const T* data;  // channel 0 of the group
  WindowGeometry<int> g;
  int pack;

  __device__ const T* find(unsigned i, unsigned k) const {
    const Divisor<int>& channels = kBackward ? g.outputs : g.inputs;
    const unsigned extent = kBackward ? g.pixels_of_x() : g.pixels_of_y(), K = g.taps() * channels;
    if (i >= extent || k >= K) return nullptr;
    const auto [tap, channel] = divide(static_cast<int>(k), channels);
    const int pixel = static_cast<int>(i);
    const std::int64_t place = kBackward ? g.output(g.pixel_of_x(pixel), g.tap(tap))
                                         : g.input(g.pixel_of_y(pixel), g.tap(tap));
    return place >= 0 ? data + place + channel : nullptr;
  }
};
template <class T>
using Patches = TapOperand<T, false>;
template <class T>
using GradientPatches = TapOperand<T, true>;

}  // namespace ringrad::kernels::cuda
