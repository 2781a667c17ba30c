// Group and instance normalization. Extents: B examples, C channels (axis 1).

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Normalizes each example's channels in `groups` groups of C / groups, over all their positions.
///
///   y = (x - mean) * rstd * weight + bias,    rstd = 1 / sqrt(var + eps)
///
/// Shapes:  x (B, C, ...); weight, bias (C), which may be undefined  ->  like x
/// DTypes:  every floating dtype; mean and rstd accumulate in float32, or float64 for float64
/// Saves:   x, weight, mean and rstd (B, groups)
/// Throws:  ShapeError unless groups divides C, and weight and bias are (C); ValueError for an eps
///          that is negative or not finite; DTypeError, DeviceError
/// Paper:   Wu and He 2018, arXiv:1803.08494
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5, Where where = Where::current());

/// group_norm with one group per channel, so that each image has its own contrast. There are no
/// running statistics: evaluation normalizes as training does, PyTorch's default.
///
/// Shapes:  x (B, C, ...); weight, bias (C), which may be undefined  ->  like x
/// Throws:  ShapeError for fewer than three axes, or for only one position; as group_norm
/// Paper:   Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double eps = 1e-5, Where where = Where::current());

}  // namespace ringrad
