// Elements chosen by a condition, and their positions.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// x with `value` where the mask is true; there the gradient is 0.
///
/// Shapes:  the mask broadcasts to x's shape
/// DTypes:  mask bool; x any, which must be able to hold the value (if x has integers, its whole
///          part)
/// Throws:  ShapeError, DTypeError, DeviceError, ValueError
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value,
                   Where where = Where::current());

/// The elements where the mask is true, in row-major order. Waits for the GPU, since their number
/// is a shape.
///
/// Shapes:  x and mask broadcast  ->  (number of them)
/// DTypes:  mask bool, x any
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor masked_select(const Tensor& x, const Tensor& mask, Where where = Where::current());

/// The coordinates of all elements that are not 0, in row-major order, as int64 without history.
/// Waits for the GPU. A NaN is not 0.
///
/// Shapes:  x with D axes  ->  (number of them, D)
Tensor nonzero(const Tensor& x, Where where = Where::current());

/// y[.., c] = 1 where c is the index, else 0, as int64. Without a number of classes (-1) it is one
/// more than the largest index, for which the host waits for the GPU.
///
/// Shapes:  indices (..)  ->  (.., num_classes)
/// DTypes:  indices int32 or int64
/// Throws:  DTypeError; ValueError for a number of classes below -1; IndexError for an index
///          outside [0, num_classes); ShapeError for no indices and no number of classes
Tensor one_hot(const Tensor& indices, std::int64_t num_classes = -1,
               Where where = Where::current());

}  // namespace ringrad
