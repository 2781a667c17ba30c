// Resizing images.

#pragma once

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor.h"
#include "ringrad/data/transform.h"

namespace ringrad {

/// The image at another size, with the bytes of PIL's Image.resize(..., BILINEAR), unless there is
/// an alpha channel: PIL resizes colours times alpha, this function each channel alone.
///
/// An output pixel is a weighted mean of the input pixels around its place. Weights fall linearly
/// to 0 over a distance of one output pixel, or of one input pixel when enlarging; so a reduced
/// image does not alias. Columns are resized first, then rows, both rounded to bytes.
///
/// Shapes:  (.., H, W)  ->  (.., size.height, size.width)
/// DTypes:  uint8
/// Throws:  ValueError unless size is positive; ShapeError for fewer than 2 axes or no pixels;
///          DTypeError, DeviceError
Tensor resize(const Tensor& image, CropSize size, Where where = Where::current());

}  // namespace ringrad
