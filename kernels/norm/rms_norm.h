// RMS normalization over the last axis: layer normalization without a mean and a bias.
//
//     y = x * rstd * weight,     rstd = 1 / sqrt(mean(x^2) + eps)
//
// Extents: C the last axis. weight may be undefined, which means 1.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

struct RMSNormResult {
  Tensor output;  ///< the shape of x
  Tensor rstd;    ///< the shape of x without its last axis
};

/// Shapes:  x (..., C), weight (C)  ->  y (..., C), rstd (...)
/// DTypes:  every floating dtype; rstd is float32, or float64 for float64
/// Throws:  ShapeError unless x has an axis and weight is (C); DTypeError, DeviceError
/// Paper:   Zhang and Sennrich 2019, arXiv:1910.07467
RMSNormResult rms_norm(const Tensor& x, const Tensor& weight, double eps,
                       Where where = Where::current());

struct RMSNormGradients {
  Tensor input;   ///< the shape of x
  Tensor weight;  ///< (C), in the dtype of rstd
};

/// With g = grad_output * weight and xhat = x * rstd, means over the row:
///
///   grad_input = rstd * (g - xhat * mean(g * xhat))
///   grad_weight = sum over rows of grad_output * xhat
///
/// Throws:  ShapeError unless grad_output has the shape of x
RMSNormGradients rms_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                   const Tensor& rstd, Where where = Where::current());

}  // namespace ringrad::kernels
