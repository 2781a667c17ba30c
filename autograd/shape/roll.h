// roll: the same elements, moved along their axes.
//
//     x            a b c d
//     roll by 1    d a b c

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A copy of x whose elements are moved by `shifts[k]` positions along `axes[k]`; those that leave
/// the end come in at the beginning. Without axes there is one shift, of all elements in row-major
/// order.
///
/// DTypes:  all
/// Throws:  ShapeError for an absent axis, or unless there are as many shifts as axes
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes = {},
            Where where = Where::current());

}  // namespace ringrad
