// Normalizations over the last axis.
//
//     layer norm     y = (x - mean) * rstd * weight + bias,     rstd = 1 / sqrt(var + eps)
//     RMS norm       y = x * rstd * weight,                     rstd = 1 / sqrt(mean(x^2) + eps)
//
// Each row is read while it is in cache: for its mean, for its variance about that mean, and for y.
// RMS norm has neither mean nor bias. To normalise over several trailing axes, reshape them to one.
//
// Extents: C the last axis. weight and bias may be undefined, which means 1 and 0.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/norm/norm_result.h"

namespace ringrad::kernels {

/// Shapes:  x (..., C), weight (C), bias (C)  ->  y (..., C), mean (...), rstd (...)
/// DTypes:  every floating dtype; mean and rstd are float32, or float64 for float64
/// Throws:  ShapeError unless x has an axis and weight and bias are (C); DTypeError, DeviceError
/// Paper:   Ba, Kiros, Hinton 2016, arXiv:1607.06450
NormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      Where where = Where::current());

/// The mean is undefined. Shapes, DTypes, Throws: as layer_norm
/// Paper:   Zhang and Sennrich 2019, arXiv:1910.07467
NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps,
                    Where where = Where::current());

/// With g = grad_output * weight and xhat = (x - mean) * rstd, means over the row:
///
///   grad_input = rstd * (g - mean(g) - xhat * mean(g * xhat))
///   grad_weight = sum over rows of grad_output * xhat,   grad_bias = sum over rows of grad_output
///
/// Throws:  ShapeError unless grad_output has the shape of x, and mean and rstd one value per row
NormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& rstd,
                                  Where where = Where::current());

/// The same with xhat = x * rstd, and without mean(g). grad_bias is undefined.
NormGradients rms_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                const Tensor& rstd, Where where = Where::current());

namespace cuda {

// kCentred: layer norm; else RMS norm, whose means and biases are undefined.
//
// REQUIRES: x, grad_output and the results are contiguous and not empty; x and grad_output have one
//           floating dtype; mean and rstd are contiguous and have the dtype of the statistics
template <bool kCentred>
void row_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
              const NormResult& result, Where where);
template <bool kCentred>
void row_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                       const NormResult& statistics, const NormGradients& result, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
