// Reverses axes of a tensor: a copy whose source is read backwards.
//
//     y[i, j] = x[I - 1 - i, j]        axes = {0}, x (I, J)

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// A copy of x with the given axes reversed (all axes if empty), in the same order of axes in
/// memory if x is dense.
///
/// DTypes:  all
/// Throws:  ShapeError for an absent or repeated axis
Tensor flip(const Tensor& x, const Shape& axes, Where where = Where::current());

}  // namespace ringrad::kernels
