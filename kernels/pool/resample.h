// Resampling of images (B, C, H, W) to another number of pixels, and its adjoint.
//
//     nearest     each output is a copy of one input
//     bilinear    each output is a mean of four inputs, weighted by their distances
//
// Results keep the input's memory order (contiguous or channels_last). Both functions compute each
// element of the result from all the elements that it depends on, in a fixed order.

#pragma once

#include <array>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// How interpolate() finds values between pixels.
enum class Interpolation : std::uint8_t {
  nearest,
  bilinear,
};

namespace kernels {

struct Resampling {
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;                   ///< of bilinear: corner pixels keep their places
  std::array<std::int64_t, 2> input = {0, 0};   ///< H, W
  std::array<std::int64_t, 2> output = {0, 0};  ///< P, Q
  std::array<double, 2> scale = {0, 0};         ///< outputs per input; 0: output / input
};

/// Shapes:  x (B, C, input)  ->  (B, C, output)
/// DTypes:  floats; 16-bit ones are weighted in float32
/// REQUIRES: extents are positive, B C may be 0
Tensor resample(const Tensor& x, const Resampling& resampling, Where where = Where::current());

/// The gradient of resample: sums over all outputs that an input adds to.
///
/// Shapes:  grad (B, C, output)  ->  (B, C, input)
Tensor resample_backward(const Tensor& grad, const Resampling& resampling,
                         Where where = Where::current());

}  // namespace kernels
}  // namespace ringrad
