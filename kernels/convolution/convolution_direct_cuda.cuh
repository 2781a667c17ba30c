// The definition of convolution, one thread per element of the result. Private to
// convolution_cuda.cu.
//
// Filters are (K, R, S, C / G): the channels over which a thread sums are neighbours. A thread
// reads all its factors from memory or the caches. Bound: the caches.

#pragma once

#include "ringrad/core/dtype.h"
#include "ringrad/kernels/convolution/convolution_operands.cuh"

namespace ringrad::kernels::cuda {

/// y[b, p, q, k]; neighbouring threads have neighbouring k. bias: K values, or null.
template <class T, class Index>
__global__ void convolution_direct(WindowGeometry<Index> g, const T* x, const T* filter,
                                   const T* bias, T* y) {
  using Math = MathType<T>;
  const std::int64_t size = std::int64_t{g.B} * g.P * g.Q * g.K;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < size; i += step) {
    const auto [pixel, k] = divide(static_cast<Index>(i), g.K);
    const auto [row, q] = divide(pixel, g.Q);
    const auto [b, p] = divide(row, g.P);
    const T* group = x + k / g.outputs * g.inputs;
    Math sum = bias ? Math(bias[k]) : Math{0};
    for (Index r = 0; r < g.R; ++r)
      for (Index s = 0; s < g.S; ++s) {
        const Index h = g.input_row(p, r), w = g.input_column(q, s);
        if (!g.has_input(h, w)) continue;
        const T* from = group + g.x_pixel(b, h, w);
        const T* tap = filter + ((std::int64_t{k} * g.R + r) * g.S + s) * g.inputs;
        for (Index c = 0; c < g.inputs; ++c) sum += Math(from[c]) * Math(tap[c]);
      }
    y[i] = T(sum);
  }
}

/// grad_x[b, h, w, c]; neighbouring threads have neighbouring c.
template <class T, class Index>
__global__ void convolution_backward_input_direct(WindowGeometry<Index> g, const T* grad_y,
                                                  const T* filter, T* grad_x) {
  using Math = MathType<T>;
  const std::int64_t size = std::int64_t{g.B} * g.H * g.W * g.C;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t filter_size = std::int64_t{g.R} * g.S * g.inputs;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < size; i += step) {
    const auto [pixel, channel] = divide(static_cast<Index>(i), g.C);
    const auto [row, w] = divide(pixel, g.W);
    const auto [b, h] = divide(row, g.H);
    const auto [group, c] = divide(channel, g.inputs);
    const T* filters = filter + group * g.outputs * filter_size + c;
    Math sum = 0;
    for (Index r = 0; r < g.R; ++r)
      for (Index s = 0; s < g.S; ++s) {
        const Index p = g.output_row(h, r), q = g.output_column(w, s);
        if (p < 0 || q < 0) continue;
        const T* from = grad_y + g.y_pixel(b, p, q) + group * g.outputs;
        const T* tap = filters + (r * g.S + s) * g.inputs;
        for (Index k = 0; k < g.outputs; ++k) sum += Math(from[k]) * Math(tap[k * filter_size]);
      }
    grad_x[i] = T(sum);
  }
}

/// parts[slice][k, r, s, c]: the sum over the rows (b, p) of y in that slice, rows_per_slice of
/// them. Neighbouring threads have neighbouring (k, c), so the images are read in whole lines even
/// if each channel is its own group.
template <class T, class Index>
__global__ void convolution_backward_weight_direct(WindowGeometry<Index> g, Index num_slices,
                                                   Index rows_per_slice, const T* x,
                                                   const T* grad_y, MathType<T>* parts) {
  using Math = MathType<T>;
  const std::int64_t channels = std::int64_t{g.K} * g.inputs, taps = std::int64_t{g.R} * g.S;
  const std::int64_t size = channels * taps;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < size * num_slices; i += step) {
    const auto slice = static_cast<Index>(i / size);
    const auto [r, s] = divide(static_cast<Index>(i / channels % taps), g.S);
    const auto [k, c] = divide(static_cast<Index>(i % channels), g.inputs);
    const Index channel = k / g.outputs * g.inputs + c;
    const Index begin = slice * rows_per_slice, rows = g.B * g.P;
    const Index end = rows - begin < rows_per_slice ? rows : begin + rows_per_slice;
    Math sum = 0;
    for (Index row = begin; row < end; ++row) {
      const auto [b, p] = divide(row, g.P);
      const Index h = g.input_row(p, r);
      for (Index q = 0; q < g.Q; ++q)
        if (const Index w = g.input_column(q, s); g.has_input(h, w))
          sum += Math(x[g.x_pixel(b, h, w) + channel]) * Math(grad_y[g.y_pixel(b, p, q) + k]);
    }
    parts[slice * size + ((std::int64_t{k} * g.R + r) * g.S + s) * g.inputs + c] = sum;
  }
}

}  // namespace ringrad::kernels::cuda
