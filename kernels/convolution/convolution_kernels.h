// The loops and kernels behind convolution.h. Private to convolution.cc.
//
// Channels are last: x (B, D, H, W, C), y (B, Z, P, Q, K). Filters are (K, C / G, U, R, S). Each of
// the three products has two implementations: `onednn` for float32, if the library has it; and
// `direct`, plain loops over the definition, for float64, for extents of zero, and forward for
// padding as wide as a filter. winograd.h and `depthwise` compute some shapes faster.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/problem/convolution_geometry.h"

namespace ringrad::kernels {
namespace cpu {

namespace onednn {

/// bias: K values, or null.
void convolution(const ConvolutionGeometry& g, const float* x, const float* weight,
                 const float* bias, float* y, Where where);
void convolution_backward_input(const ConvolutionGeometry& g, const float* grad_y,
                                const float* weight, float* grad_x, Where where);
void convolution_backward_weight(const ConvolutionGeometry& g, const float* x, const float* grad_y,
                                 float* grad_weight, Where where);

}  // namespace onednn

/// Depthwise convolutions (each channel is its own group) with filters five or seven taps wide.
/// oneDNN takes ten times as long for their weight gradients as for the forward pass.
namespace depthwise {

bool supports(const ConvolutionGeometry& g);
/// REQUIRES: supports(g); no extent is 0
void convolution_backward_weight(const ConvolutionGeometry& g, const float* x, const float* grad_y,
                                 float* grad_weight);

}  // namespace depthwise

namespace direct {

template <class T>
void convolution(const ConvolutionGeometry& g, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void convolution_backward_input(const ConvolutionGeometry& g, const T* grad_y, const T* weight,
                                T* grad_x);
template <class T>
void convolution_backward_weight(const ConvolutionGeometry& g, const T* x, const T* grad_y,
                                 T* grad_weight);

}  // namespace direct

}  // namespace cpu

namespace cuda {

// Volumes are images of D * H rows: x (B, C, D * H, W), y (B, K, Z * P, Q), and filters
// (K, C / G, U * R, S).
//
// REQUIRES: images and their gradients are channels_last; biases and gradients of filters are
// contiguous; all have one dtype and are on one device. Any extent may be 0.

/// bias may be undefined.
void convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const Tensor& y, Where where);
void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& grad_y,
                                const Tensor& weight, const Tensor& grad_x, Where where);
void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                 const Tensor& grad_y, const Tensor& grad_weight, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
