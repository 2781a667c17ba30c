// Layer normalization. Extents: C the last axis.

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

}  // namespace ringrad
