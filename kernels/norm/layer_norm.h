// Layer normalization over the last axis.
//
//     y = (x - mean) * rstd * weight + bias,     rstd = 1 / sqrt(var + eps)
//
// Each row is read three times while it is in cache: for its mean, for its variance about that
// mean, and for y. To normalise over several trailing axes, reshape them to one.
//
// Extents: C the last axis, R rows. weight and bias may be undefined, which means 1 and 0.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

struct LayerNormResult {
  Tensor output;      ///< the shape of x
  Tensor mean, rstd;  ///< the shape of x without its last axis
};

/// Shapes:  x (..., C), weight (C), bias (C)  ->  y (..., C), mean (...), rstd (...)
/// DTypes:  every floating dtype; mean and rstd are float32, or float64 for float64
/// Throws:  ShapeError unless x has an axis and weight and bias are (C); DTypeError, DeviceError
/// Paper:   Ba, Kiros, Hinton 2016, arXiv:1607.06450
LayerNormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                           Where where = Where::current());

struct LayerNormGradients {
  Tensor input;         ///< the shape of x
  Tensor weight, bias;  ///< (C), in the dtype of mean and rstd
};

/// With g = grad_output * weight and xhat = (x - mean) * rstd, means over the row:
///
///   grad_input = rstd * (g - mean(g) - xhat * mean(g * xhat))
///   grad_weight = sum over rows of grad_output * xhat,   grad_bias = sum over rows of grad_output
///
/// Throws:  ShapeError unless grad_output has the shape of x
LayerNormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x,
                                       const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                                       Where where = Where::current());

}  // namespace ringrad::kernels
