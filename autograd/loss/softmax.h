// Softmax and its logarithm along one axis; kernels/loss/softmax.h has the formulas.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Positive numbers that sum to one along the axis.
///
///   y_i = exp(x_i) / sum_j exp(x_j)
///
/// Shapes:  any; axis counts from the end if negative
/// DTypes:  every floating dtype; sums accumulate in float32 for the 16-bit ones
/// Saves:   y
/// Throws:  DTypeError unless floating; ShapeError for an absent axis
Tensor softmax(const Tensor& x, std::int64_t axis, Where where = Where::current());

/// The logarithm of softmax, exact where softmax itself would underflow.
///
///   y_i = x_i - log sum_j exp(x_j)
///
/// Shapes, DTypes, Saves, Throws: as softmax
Tensor log_softmax(const Tensor& x, std::int64_t axis, Where where = Where::current());

}  // namespace ringrad
