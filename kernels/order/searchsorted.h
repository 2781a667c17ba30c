// searchsorted: the places at which values fit into sorted lines.
//
//     sorted     1 3 3 5
//     value 3    left: 1, before the equal elements;    right: 3, after them

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// The number of elements of a line that are below each value, or, if `right`, not above it. A NaN
/// is larger than any number.
///
/// Shapes:  sorted (N), values any  ->  like values; or sorted (.., N), values (.., M)  ->  (.., M)
/// DTypes:  all, the same for both; the result is int64
/// Throws:  ShapeError, DTypeError, DeviceError
/// REQUIRES: the lines are sorted, else the result is unspecified
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right,
                    Where where = Where::current());

namespace cuda {

/// Each line of `sorted` is searched for `per_line` neighbouring values.
/// REQUIRES: all are contiguous; values is not empty
void searchsorted(const Tensor& sorted, const Tensor& values, std::int64_t per_line, bool right,
                  const Tensor& places, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
