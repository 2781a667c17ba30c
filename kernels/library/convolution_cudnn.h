// Convolution by cuDNN. Private to kernels/.
//
// Extents and memory order are as convolution_kernels.h says. Filters are copied into cuDNN's
// order, channels last, and a filter's gradient is copied back; filters are small.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/library/cudnn_graph.h"
#include "ringrad/kernels/problem/convolution_geometry.h"

namespace ringrad::kernels::cudnn {

/// y = convolution(x, weight) + bias on the device's current stream; bias may be undefined. Returns
/// false, having done nothing, if cuDNN has no engine for it.
///
/// REQUIRES: missing() is empty; no extent is 0; the dtype is not float64; x and y are
///           channels_last, bias is contiguous; shapes are as convolution_kernels.h says
bool convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const Tensor& y, bool tf32, Where where);
bool convolution_backward_input(const ConvolutionGeometry& g, const Tensor& grad_y,
                                const Tensor& weight, const Tensor& grad_x, bool tf32, Where where);
/// REQUIRES: grad_weight is contiguous
bool convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                 const Tensor& grad_y, const Tensor& grad_weight, bool tf32,
                                 Where where);

/// The numbers of the tensors in the graphs below.
struct ConvolutionIds {
  static constexpr std::int64_t x = 1, weight = 2, bias = 3, y = 4;
};

// Graphs of the products. In the backward graphs, x, weight and y stand for their gradients.
Graph convolution_graph(const ConvolutionGeometry& g, DType dtype, bool has_bias);
Graph backward_input_graph(const ConvolutionGeometry& g, DType dtype);
Graph backward_weight_graph(const ConvolutionGeometry& g, DType dtype);

}  // namespace ringrad::kernels::cudnn
