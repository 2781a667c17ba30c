// Finds the two inputs between which an interpolated output lies. CPU loops and GPU kernels share
// this arithmetic; they are declared below. Private to kernels/pool.

#pragma once

#include <algorithm>
#include <cstdint>

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// One axis of a resampling. Output o is between two neighbouring inputs:
///
///     y[o] = (1 - weight) x[low] + weight x[high]
///
///     nearest                low = floor(o * step),    weight = 0
///     linear                 source = max(0, (o + 1/2) * step - 1/2): pixels are squares
///     linear, align_corners  source = o * step: pixels are points
///                            low = floor(source),      weight = source - low
struct ResampleAxis {
  std::int64_t inputs = 0, outputs = 0;
  double step = 1;  ///< inputs per output
  bool linear = false, align_corners = false;

  struct Place {
    std::int64_t low, high;
    double weight;

    /// How much input i adds to the output.
    constexpr double weight_of(std::int64_t i) const {
      return (i == low ? 1 - weight : 0) + (i == high ? weight : 0);
    }
  };

  constexpr Place place(std::int64_t o) const {
    if (!linear) {
      // In float32, as in PyTorch: elsewhere a product just below an integer would give another
      // pixel.
      const float source = static_cast<float>(o) * static_cast<float>(step);
      const std::int64_t i = outputs == inputs       ? o
                             : outputs == 2 * inputs ? o / 2
                                                     : static_cast<std::int64_t>(source);
      return {std::min(i, inputs - 1), std::min(i, inputs - 1), 0};
    }
    const double at = static_cast<double>(o);
    const double source = align_corners ? at * step : std::max(0., (at + 0.5) * step - 0.5);
    const std::int64_t low = std::min(static_cast<std::int64_t>(source), inputs - 1);
    return {low, std::min(low + 1, inputs - 1), source - static_cast<double>(low)};
  }

  /// All outputs to which input i adds lie in [first_output(i), end_output(i)). The range may also
  /// hold outputs to which it does not add.
  constexpr std::int64_t first_output(std::int64_t i) const {
    if (i == 0 || step <= 0) return 0;
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(output_at(i - 1)) - 2, 0, outputs);
  }
  constexpr std::int64_t end_output(std::int64_t i) const {
    if (i == inputs - 1 || step <= 0) return outputs;
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(output_at(i + 1)) + 3, 0, outputs);
  }

 private:
  constexpr double output_at(std::int64_t i) const {
    const double at = static_cast<double>(i);
    return linear && !align_corners ? (at + 0.5) / step - 0.5 : at / step;
  }
};

/// Images as the loops see them: (images, H, W, C), channels innermost; or B * C images of one
/// channel.
struct ResampleGeometry {
  std::int64_t images = 0, C = 0;
  ResampleAxis rows, columns;

  constexpr std::int64_t num_inputs() const { return images * rows.inputs * columns.inputs * C; }
  constexpr std::int64_t num_outputs() const { return images * rows.outputs * columns.outputs * C; }
};

namespace cpu {

/// REQUIRES: tensors are dense, in the memory order that the geometry describes
void resample(const ResampleGeometry& g, const Tensor& x, const Tensor& y, Where where);
void resample_backward(const ResampleGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where);

}  // namespace cpu

namespace cuda {

/// As their namesakes in cpu, for tensors on a GPU.
void resample(const ResampleGeometry& g, const Tensor& x, const Tensor& y, Where where);
void resample_backward(const ResampleGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
