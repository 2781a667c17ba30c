// Convolution over sequences, images and volumes, and its transpose.
//
// Extents: B batch, C input channels, K output channels, G groups. Of an image: H W input pixels, P
// Q output pixels, R S filter taps. A volume also has a depth: D, Z and U. Of a sequence: L input
// positions, T output positions, S filter taps.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/convolution/convolution.h"

namespace ringrad {

/// Options of a transposed convolution over N axes.
template <std::size_t N>
struct ConvTransposeOptions {
  PerAxis<N> stride = 1;
  PerAxis<N> padding = 0;         ///< removed on either side of the result
  PerAxis<N> output_padding = 0;  ///< added at its end; less than the stride
  PerAxis<N> dilation = 1;        ///< distance between taps
  std::int64_t groups = 1;  ///< output channels of a group see that group's input channels only
};
using ConvTranspose1dOptions = ConvTransposeOptions<1>;
using ConvTranspose2dOptions = ConvTransposeOptions<2>;
using ConvTranspose3dOptions = ConvTransposeOptions<3>;

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

/// The same over one axis.
///
/// Shapes:  x (B, C, L), weight (K, C / G, S), bias (K) or undefined  ->  (B, K, T)
/// DTypes, Saves, Throws: as conv2d
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {}, Where where = Where::current());

/// The same over three axes. The result has its channels last in memory.
///
/// Shapes:  x (B, C, D, H, W), weight (K, C / G, U, R, S), bias (K) or undefined
///          ->  (B, K, Z, P, Q)
/// DTypes, Saves, Throws: as conv2d
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv3dOptions& options = {}, Where where = Where::current());

/// Transposed convolution: the gradient of conv2d with respect to its input, as an operator. Each
/// pixel of x adds its multiple of a filter to the result:
///
///   y[b, c, h, w] = bias[c] + sum over k, r, s of x[b, k, p, q] * weight[k, c, r, s]
///   for all p, q with  h = p * stride + r * dilation - padding,  w = q * stride + ... likewise
///   H = (P - 1) * stride - 2 * padding + dilation * (R - 1) + output_padding + 1,  W likewise
///
/// The result has the channels_last layout.
///
/// Shapes:  x (B, K, P, Q), weight (K, C / G, R, S), bias (C) or undefined  ->  (B, C, H, W)
/// DTypes:  every floating dtype; 16-bit ones accumulate in float32
/// Saves:   x, weight
/// Throws:  ShapeError, also if the result had no pixels; DTypeError, DeviceError; ValueError
///          unless stride, dilation, groups > 0, padding >= 0 and 0 <= output_padding < stride
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {}, Where where = Where::current());

/// The same over one axis.
///
/// Shapes:  x (B, K, T), weight (K, C / G, S), bias (C) or undefined  ->  (B, C, L)
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {}, Where where = Where::current());

/// The same over three axes.
///
/// Shapes:  x (B, K, Z, P, Q), weight (K, C / G, U, R, S), bias (C) or undefined
///          ->  (B, C, D, H, W)
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {}, Where where = Where::current());

}  // namespace ringrad
