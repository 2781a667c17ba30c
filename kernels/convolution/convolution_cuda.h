// The kernels behind convolution.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/problem/convolution_geometry.h"

namespace ringrad::kernels::cuda {

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

}  // namespace ringrad::kernels::cuda
