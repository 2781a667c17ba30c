// flip and roll: the same elements at other positions of their axes.
//
//     x            a b c d
//     flip         d c b a
//     roll by 1    d a b c

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A copy of x with the given axes reversed; unlike NumPy's it is not a view.
///
/// DTypes:  all
/// Throws:  ShapeError for an absent or repeated axis
Tensor flip(const Tensor& x, const Shape& axes, Where where = Where::current());

/// A copy of x whose elements are moved by `shifts[k]` positions along `axes[k]`; those that leave
/// the end come in at the beginning. Without axes there is one shift, of all elements in row-major
/// order.
///
/// DTypes:  all
/// Throws:  ShapeError for an absent axis, or unless there are as many shifts as axes
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes = {},
            Where where = Where::current());

}  // namespace ringrad
