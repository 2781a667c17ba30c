// Two-dimensional convolution.
//
// Extents: B batch, C input channels, K output channels, H W input pixels, P Q output pixels, R S
// filter taps, G groups.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/convolution/convolution.h"

namespace ringrad {

/// Cross-correlation of images with filters:
///
///   y[b, k, p, q] = bias[k] + sum over c, r, s of x[b, c, h, w] * weight[k, c, r, s]
///   with  h = p * stride + r * dilation - padding,  w = q * stride + s * dilation - padding
///
/// The result has the channels_last layout.
///
/// Shapes:  x (B, C, H, W), weight (K, C / G, R, S), bias (K) or undefined  ->  (B, K, P, Q)
/// DTypes:  every floating dtype; 16-bit ones accumulate in float32
/// Saves:   x, weight
/// Throws:  ShapeError, DTypeError, DeviceError; ValueError unless stride, dilation, groups > 0 and
///          padding >= 0
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {}, Where where = Where::current());

}  // namespace ringrad
