// Convolution (cross-correlation, as in all deep-learning libraries) over sequences, images or
// volumes, and its gradients. For an image:
//
//     y[b, k, p, q] = bias[k] + sum over c, r, s of x[b, c, h, w] * weight[k, c, r, s]
//     with  h = p * stride + r * dilation - padding,  w = q * stride + s * dilation - padding
//
// A volume also has a depth, whose indices z, d and u correspond to p, h and r of the height.
//
// Results have their channels last in memory whatever order the input has: the channels of one
// pixel are then neighbours, so every inner loop runs over consecutive memory. An input in another
// order is copied once.
//
// convolution_cuda.cu has the implementations for GPUs. On a CPU the shape chooses among these:
//
//     winograd.h                    3x3 with stride 1, float32, channels in sixteens, filters that
//                                   fit into a cache, AVX-512: a quarter of the multiplications
//     convolution_depthwise_cpu.cc  weight gradients of depthwise filters 5 or 7 wide, float32
//     oneDNN                        every other float32 shape
//     convolution_direct_cpu.cc     loops, for float64, for extents of zero, and forward for
//                                   padding as wide as a filter
//
// Extents: B batch, C input channels, K output channels, D H W input pixels, Z P Q output pixels,
// U R S filter taps, G groups; L input positions, T output positions of a sequence.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/problem/convolution_geometry.h"

namespace ringrad::kernels {

/// P = (H + 2 * padding - dilation * (R - 1) - 1) / stride + 1, rounded down; Q and Z likewise.
/// Conv1dOptions, Conv2dOptions or Conv3dOptions as `options` selects the shapes below.
///
/// Shapes:  conv1d  x (B, C, L),        weight (K, C / G, S)        ->  (B, K, T)
///          conv2d  x (B, C, H, W),     weight (K, C / G, R, S)     ->  (B, K, P, Q)
///          conv3d  x (B, C, D, H, W),  weight (K, C / G, U, R, S)  ->  (B, K, Z, P, Q)
///          bias (K) or undefined
/// DTypes:  every floating dtype; 16-bit ones accumulate in float32
/// Throws:  ShapeError for other shapes, or if a filter does not fit into the padded input;
///          ValueError unless stride, dilation, groups > 0 and padding >= 0; DTypeError,
///          DeviceError if tensors differ
/// Paper:   Lavin and Gray 2015, arXiv:1509.09308 (Winograd)
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const ConvolutionOptions& options, Where where = Where::current());

/// The gradient of convolution() with respect to x, also known as transposed convolution.
///
/// Shapes:  grad_output (B, K, ...), weight (K, C / G, ...)  ->  input_shape (B, C, ...)
/// Throws:  as convolution; ShapeError unless grad_output has the shape that convolution gives
Tensor convolution_backward_input(const Tensor& grad_output, const Tensor& weight,
                                  const Shape& input_shape, const ConvolutionOptions& options,
                                  Where where = Where::current());

struct ConvolutionWeightGradients {
  Tensor weight;  ///< (K, C / G, ...), contiguous
  Tensor bias;    ///< (K); undefined unless `with_bias`
};

/// The gradients of convolution() with respect to its weight and, if `with_bias`, its bias.
///
/// Shapes:  grad_output (B, K, ...), x (B, C, ...)  ->  weight_shape (K, C / G, ...)
/// Throws:  as convolution_backward_input
ConvolutionWeightGradients convolution_backward_weight(const Tensor& grad_output, const Tensor& x,
                                                       const Shape& weight_shape, bool with_bias,
                                                       const ConvolutionOptions& options,
                                                       Where where = Where::current());

}  // namespace ringrad::kernels
