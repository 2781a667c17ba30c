// Normalization of rows: layer norm and RMS norm. Extents: C the last axis.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Layer normalization over the last axis.
///
///   y = (x - mean) * rstd * weight + bias,    rstd = 1 / sqrt(var + eps)
///
/// Shapes:  x (..., C), weight (C), bias (C), which may be undefined  ->  y (..., C)
/// DTypes:  every floating dtype; mean and rstd accumulate in float32, or float64 for float64
/// Saves:   x, weight, mean (...), rstd (...)
/// Throws:  ShapeError unless weight and bias are (C); ValueError for an eps that is negative or
///          not finite; DTypeError, DeviceError
/// Paper:   Ba, Kiros, Hinton 2016, arXiv:1607.06450
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Where where = Where::current());

/// RMS normalization over the last axis: layer normalization without a mean and a bias.
///
///   y = x * rstd * weight,    rstd = 1 / sqrt(mean(x^2) + eps)
///
/// PyTorch's default eps is that of the dtype, 1.2e-7 for float32.
///
/// Shapes:  x (..., C), weight (C), which may be undefined  ->  y (..., C)
/// DTypes:  every floating dtype; rstd accumulates in float32, or float64 for float64
/// Saves:   x, weight, rstd (...)
/// Throws:  ShapeError unless weight is (C); ValueError for an eps that is negative or not finite;
///          DTypeError, DeviceError
/// Paper:   Zhang and Sennrich 2019, arXiv:1910.07467
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-5,
                Where where = Where::current());

}  // namespace ringrad
