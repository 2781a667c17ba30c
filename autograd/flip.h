// flip: the same elements, read backwards.
//
//     x            a b c d
//     flip         d c b a

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A copy of x with the given axes reversed; unlike NumPy's it is not a view.
///
/// DTypes:  all
/// Throws:  ShapeError for an absent or repeated axis
Tensor flip(const Tensor& x, const Shape& axes, Where where = Where::current());

}  // namespace ringrad
