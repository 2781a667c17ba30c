// Group normalization: each example's channels in groups, each group normalized by itself.
//
//     mean, var over a group of C / groups channels and their S positions
//     y = (x - mean) * rstd * weight + bias,     rstd = 1 / sqrt(var + eps)
//
// Extents: B examples, C channels (axis 1), G groups, S positions (all later axes together).
// weight and bias have one value per channel; undefined, they mean 1 and 0. Instance norm has one
// group per channel. Kernels read a contiguous x or a contiguous copy of it: in channels_last, the
// elements of a group are not consecutive.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/norm/norm_result.h"

namespace ringrad::kernels {

/// Shapes:  x (B, C, ...), weight (C), bias (C)  ->  y like x, mean (B, G), rstd (B, G)
/// DTypes:  every floating dtype; mean and rstd are float32, or float64 for float64
/// Throws:  ShapeError unless x has at least two axes, groups divides C, and weight and bias are
///          (C); DTypeError, DeviceError
/// Paper:   Wu and He 2018, arXiv:1803.08494
NormResult group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight,
                      const Tensor& bias, double eps, Where where = Where::current());

/// With g = grad_output * weight and xhat = (x - mean) * rstd, means over the group:
///
///   grad_input = rstd * (g - mean(g) - xhat * mean(g * xhat))
///   grad_weight = sum over B and S of grad_output * xhat,   grad_bias = that of grad_output
///
/// REQUIRES: mean and rstd are those of group_norm(x, ...)
/// Throws:   ShapeError unless grad_output has the shape of x
NormGradients group_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& rstd,
                                  Where where = Where::current());

namespace cuda {

// REQUIRES: x, grad_output and the results are contiguous and not empty; x and grad_output have one
//           floating dtype; mean and rstd are contiguous and have the dtype of the statistics
void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                const NormResult& result, Where where);
void group_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const NormGradients& result,
                         Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
