// Two-dimensional convolution (cross-correlation, as in all deep-learning libraries) and its
// gradients.
//
//     y[b, k, p, q] = bias[k] + sum over c, r, s of x[b, c, h, w] * weight[k, c, r, s]
//     with  h = p * stride + r * dilation - padding,  w = q * stride + s * dilation - padding
//
// Results are channels_last whatever order the input has: the channels of one pixel are then
// neighbours, so every inner loop runs over consecutive memory. An input in another order is copied
// once.
//
// On a CPU the shape chooses among three implementations; convolution_cuda.cu has those for a GPU:
//
//     winograd.h                 3x3 with stride 1, float32, channels in sixteens:
//                                a quarter of the multiplications
//     oneDNN                     every other float32 shape
//     convolution_direct_cpu.cc  loops, for float64 and for what oneDNN does not support
//
// Extents: B batch, C input channels, K output channels, H W input pixels, P Q output pixels,
// R S filter taps, G groups.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/convolution/convolution_geometry.h"

namespace ringrad::kernels {

/// P = (H + 2 * padding - dilation * (R - 1) - 1) / stride + 1, rounded down; Q likewise.
///
/// Shapes:  x (B, C, H, W), weight (K, C / G, R, S), bias (K) or undefined  ->  (B, K, P, Q)
/// DTypes:  every floating dtype; 16-bit ones accumulate in float32
/// Throws:  ShapeError for other shapes, or if a filter does not fit into the padded input;
///          ValueError unless stride, dilation, groups > 0 and padding >= 0; DTypeError,
///          DeviceError if tensors differ
/// Paper:   Lavin and Gray 2015, arXiv:1509.09308 (Winograd)
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options = {}, Where where = Where::current());

/// The gradient of conv2d with respect to x, also known as transposed convolution.
///
/// Shapes:  grad_output (B, K, P, Q), weight (K, C / G, R, S)  ->  input_shape (B, C, H, W)
/// Throws:  as conv2d; ShapeError unless grad_output has the shape conv2d gives
Tensor conv2d_backward_input(const Tensor& grad_output, const Tensor& weight,
                             const Shape& input_shape, const Conv2dOptions& options = {},
                             Where where = Where::current());

struct Conv2dWeightGradients {
  Tensor weight;  ///< (K, C / G, R, S), contiguous
  Tensor bias;    ///< (K); undefined unless `with_bias`
};

/// The gradients of conv2d with respect to its weight and, if `with_bias`, its bias.
///
/// Shapes:  grad_output (B, K, P, Q), x (B, C, H, W)  ->  weight_shape (K, C / G, R, S)
/// Throws:  as conv2d_backward_input
Conv2dWeightGradients conv2d_backward_weight(const Tensor& grad_output, const Tensor& x,
                                             const Shape& weight_shape, bool with_bias,
                                             const Conv2dOptions& options = {},
                                             Where where = Where::current());

}  // namespace ringrad::kernels
