// The definition of convolution, one thread per element of the result. Private to
// convolution_cuda.cu.
//
// Filters are (K, U, R, S, C / G): the channels over which a thread sums are neighbours. A thread
// reads all its factors from memory or the caches. Bound: the caches.

#pragma once

#include "ringrad/core/dtype.h"
#include "ringrad/kernels/convolution/convolution_operands.cuh"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {

/// Calls visit(tap, its number) for every tap of a filter.
template <class Index, class Visit>
__device__ void for_each_tap(const WindowGeometry<Index>& g, Visit visit) {
  Index number = 0;
  for (Index u = 0; u < g.depth.taps; ++u)
    for (Index r = 0; r < g.rows.taps; ++r)
      for (Index s = 0; s < g.columns.taps; ++s)
        visit(typename WindowGeometry<Index>::Tap{u, r, s}, number++);
}

/// y[pixel, k]; neighbouring threads have neighbouring k. bias: K values, or null.
template <class T, class Index>
__global__ void convolution_direct(WindowGeometry<Index> g, const T* x, const T* filter,
                                   const T* bias, T* y) {
  using Math = MathType<T>;
  const std::int64_t size = std::int64_t{g.pixels_of_y()} * g.K;
  for (const std::int64_t i : own_elements(size)) {
    const auto [number, k] = divide(static_cast<Index>(i), g.K);
    const auto pixel = g.pixel_of_y(number);
    const T* group = x + k / g.outputs * g.inputs;
    const T* taps = filter + std::int64_t{k} * g.taps() * g.inputs;
    Math sum = bias ? Math(bias[k]) : Math{0};
    for_each_tap(g, [&](const auto& tap, Index n) {
      const std::int64_t place = g.input(pixel, tap);
      if (place < 0) return;
      for (Index c = 0; c < g.inputs; ++c)
        sum += Math(group[place + c]) * Math(taps[n * g.inputs + c]);
    });
    y[i] = T(sum);
  }
}

/// grad_x[pixel, c]; neighbouring threads have neighbouring c.
template <class T, class Index>
__global__ void convolution_backward_input_direct(WindowGeometry<Index> g, const T* grad_y,
                                                  const T* filter, T* grad_x) {
  using Math = MathType<T>;
  const std::int64_t size = std::int64_t{g.pixels_of_x()} * g.C;
  const std::int64_t filter_size = std::int64_t{g.taps()} * g.inputs;
  for (const std::int64_t i : own_elements(size)) {
    const auto [number, channel] = divide(static_cast<Index>(i), g.C);
    const auto pixel = g.pixel_of_x(number);
    const auto [group, c] = divide(channel, g.inputs);
    const T* grads = grad_y + group * g.outputs;
    const T* filters = filter + group * g.outputs * filter_size + c;
    Math sum = 0;
    for_each_tap(g, [&](const auto& tap, Index n) {
      const std::int64_t place = g.output(pixel, tap);
      if (place < 0) return;
      const T* taps = filters + n * g.inputs;
      for (Index k = 0; k < g.outputs; ++k)
        sum += Math(grads[place + k]) * Math(taps[k * filter_size]);
    });
    grad_x[i] = T(sum);
  }
}

/// parts[slice][k, tap, c]: the sum over the rows (b, z, p) of y in that slice, rows_per_slice of
/// them. Neighbouring threads have neighbouring (k, c), so the images are read in whole lines even
/// if each channel is its own group.
template <class T, class Index>
__global__ void convolution_backward_weight_direct(WindowGeometry<Index> g, Index num_slices,
                                                   Index rows_per_slice, const T* x,
                                                   const T* grad_y, MathType<T>* parts) {
  using Math = MathType<T>;
  const std::int64_t channels = std::int64_t{g.K} * g.inputs, taps = g.taps();
  const std::int64_t size = channels * taps;
  for (const std::int64_t i : own_elements(size * num_slices)) {
    const auto slice = static_cast<Index>(i / size);
    const auto number = static_cast<Index>(i / channels % taps);
    const auto tap = g.tap(number);
    const auto [k, c] = divide(static_cast<Index>(i % channels), g.inputs);
    const Index channel = k / g.outputs * g.inputs + c, Q = g.columns.outputs;
    const Index begin = slice * rows_per_slice, rows = g.pixels_of_y() / g.columns.outputs;
    const Index end = rows - begin < rows_per_slice ? rows : begin + rows_per_slice;
    Math sum = 0;
    for (Index row = begin; row < end; ++row) {
      auto pixel = g.pixel_of_y(row * Q);
      for (; pixel.column < Q; ++pixel.column)
        if (const std::int64_t place = g.input(pixel, tap); place >= 0)
          sum += Math(x[place + channel]) *
                 Math(grad_y[(std::int64_t{row} * Q + pixel.column) * g.K + k]);
    }
    parts[slice * size + (std::int64_t{k} * taps + number) * g.inputs + c] = sum;
  }
}

}  // namespace ringrad::kernels::cuda
