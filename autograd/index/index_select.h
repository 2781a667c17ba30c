// Slices along an axis, picked by position.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// y[.., i, ..] = x[.., indices[i], ..]; a position may be picked several times or never.
///
/// Shapes:  x (.., N, ..), indices (I)  ->  (.., I, ..)
/// DTypes:  x every dtype; indices int32 or int64
/// Saves:   indices
/// Throws:  IndexError for an index outside [0, N); ShapeError for an absent axis, or unless
///          indices has one axis; DTypeError, DeviceError
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& indices,
                    Where where = Where::current());

}  // namespace ringrad
