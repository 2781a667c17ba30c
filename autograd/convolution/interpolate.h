// Interpolation of images to another number of pixels.

#pragma once

#include "ringrad/core/base/per_axis.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/pool/resample.h"

namespace ringrad {

struct InterpolateOptions {
  PerAxis<2> size = 0;           ///< pixels of the result: vertical, horizontal
  PerAxis<2, double> scale = 0;  ///< instead of a size: outputs per input, rounded down
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< of bilinear: pixels are points, and those in corners stay there
};

/// Values between the pixels of x, as kernels/pool/resample_axis.h defines their places. A result
/// in bilinear mode is weighted by distances along both axes; without align_corners pixels are
/// squares, so sizes may be scaled without a shift.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, size[0], size[1]), or (B, C, H scale[0], W scale[1])
/// DTypes:  every floating dtype; 16-bit ones are weighted in float32
/// Throws:  ShapeError unless x has four axes, and both x and the result have pixels; ValueError
///          unless one of size and scale is given, or for align_corners in nearest mode; DTypeError
Tensor interpolate(const Tensor& x, const InterpolateOptions& options,
                   Where where = Where::current());

}  // namespace ringrad
