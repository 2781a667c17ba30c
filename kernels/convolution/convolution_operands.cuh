// A convolution's images as virtual matrices, never stored, for gemm.cuh. Private to
// convolution_cuda.cu.
//
//     forward           y (pixels of y, k)  = patches (pixels of y, rsc)   * filter (rsc, k)
//     input gradient    dx (pixels of x, c) = gradients (pixels of x, rsk) * filter (rsk, c)
//     weight gradient   dw (k, rsc)         = dy (k, pixels of y)  * patches (pixels of y, rsc)
//
// Rows are pixels of all images, numbered in memory order. Columns are taps of the filter with the
// channels of one pixel innermost, which are neighbours in memory. Elements outside an image are 0.
// In a grouped convolution, each group is a separate product.

#pragma once

#include <cstdint>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/kernels/convolution/convolution_geometry.h"
#include "ringrad/kernels/divisor.h"

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

/// ConvolutionGeometry for kernels. REQUIRES: no extent is 0
template <class Index>
struct WindowGeometry {
  Divisor<Index> B, C, H, W, K, P, Q, R, S;
  Divisor<Index> inputs, outputs;  // of a group
  Divisor<Index> stride_h, stride_w;
  Index padding_h, padding_w, dilation_h, dilation_w;

  explicit WindowGeometry(const ConvolutionGeometry& g)
      : B(static_cast<Index>(g.B)),
        C(static_cast<Index>(g.C)),
        H(static_cast<Index>(g.H)),
        W(static_cast<Index>(g.W)),
        K(static_cast<Index>(g.K)),
        P(static_cast<Index>(g.P)),
        Q(static_cast<Index>(g.Q)),
        R(static_cast<Index>(g.R)),
        S(static_cast<Index>(g.S)),
        inputs(static_cast<Index>(g.group_inputs())),
        outputs(static_cast<Index>(g.group_outputs())),
        stride_h(static_cast<Index>(g.options.stride[0])),
        stride_w(static_cast<Index>(g.options.stride[1])),
        padding_h(static_cast<Index>(g.options.padding[0])),
        padding_w(static_cast<Index>(g.options.padding[1])),
        dilation_h(static_cast<Index>(g.options.dilation[0])),
        dilation_w(static_cast<Index>(g.options.dilation[1])) {}

  /// The input that tap (r, s) of output (p, q) reads; it may lie in the padding.
  __device__ Index input_row(Index p, Index r) const {
    return p * stride_h + r * dilation_h - padding_h;
  }
  __device__ Index input_column(Index q, Index s) const {
    return q * stride_w + s * dilation_w - padding_w;
  }

  /// The output whose tap (r, s) reads input (h, w); -1 if there is none.
  __device__ Index output_row(Index h, Index r) const {
    return output(h + padding_h - r * dilation_h, stride_h, P);
  }
  __device__ Index output_column(Index w, Index s) const {
    return output(w + padding_w - s * dilation_w, stride_w, Q);
  }

  /// True if (h, w) lies inside x.
  __device__ bool has_input(Index h, Index w) const { return h >= 0 && h < H && w >= 0 && w < W; }

  // The offset at which a pixel's channels begin.
  __device__ std::int64_t x_pixel(Index b, Index h, Index w) const {
    return std::int64_t{(b * H + h) * W + w} * C;
  }
  __device__ std::int64_t y_pixel(Index b, Index p, Index q) const {
    return std::int64_t{(b * P + p) * Q + q} * K;
  }

 private:
  __device__ static Index output(Index distance, const Divisor<Index>& stride, Index extent) {
    if (distance < 0) return -1;
    const auto [place, rest] = divide(distance, stride);
    return rest == 0 && place < extent ? place : -1;
  }
};

/// i: pixels of y; k: (r, s, c) of a group's filters. Element: the input that tap (r, s) reads from
/// channel c.
template <class T>
struct Patches {
  using Element = T;
  static constexpr bool kAlongK = true;

  const T* data;  // channel 0 of the group
  WindowGeometry<int> g;
  int pack;

  __device__ const T* find(unsigned i, unsigned k) const {
    const unsigned extent = g.B * g.P * g.Q, K = g.R * g.S * g.inputs;
    if (i >= extent || k >= K) return nullptr;
    const auto [row, q] = divide(static_cast<int>(i), g.Q);
    const auto [b, p] = divide(row, g.P);
    const auto [tap, c] = divide(static_cast<int>(k), g.inputs);
    const auto [r, s] = divide(tap, g.S);
    const int h = g.input_row(p, r), w = g.input_column(q, s);
    return g.has_input(h, w) ? data + g.x_pixel(b, h, w) + c : nullptr;
  }
};

/// i: pixels of x; k: (r, s, k) of a group's filters. Element: the gradient of the output whose tap
/// (r, s) reads that pixel.
template <class T>
struct GradientPatches {
  using Element = T;
  static constexpr bool kAlongK = true;

  const T* data;  // channel 0 of the group
  WindowGeometry<int> g;
  int pack;

  __device__ const T* find(unsigned i, unsigned k) const {
    const unsigned extent = g.B * g.H * g.W, K = g.R * g.S * g.outputs;
    if (i >= extent || k >= K) return nullptr;
    const auto [row, w] = divide(static_cast<int>(i), g.W);
    const auto [b, h] = divide(row, g.H);
    const auto [tap, channel] = divide(static_cast<int>(k), g.outputs);
    const auto [r, s] = divide(tap, g.S);
    const int p = g.output_row(h, r), q = g.output_column(w, s);
    return p >= 0 && q >= 0 ? data + g.y_pixel(b, p, q) + channel : nullptr;
  }
};

}  // namespace ringrad::kernels::cuda
