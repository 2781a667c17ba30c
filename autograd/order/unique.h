// The different elements of a tensor.

#pragma once

#include <array>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The different elements of x in the order of sorting, where each element of x is among them, and
/// how often each occurs. Waits for the GPU, since their number U is a shape. No NaN equals
/// another.
///
///     const auto [values, inverse, counts] = unique(x);       values[inverse] is x
///
/// Shapes:  values (U), inverse like x, counts (U)
/// DTypes:  all; inverse and counts are int64
/// Throws:  AutogradError in a backward pass through values, which have no derivative
std::array<Tensor, 3> unique(const Tensor& x, Where where = Where::current());

}  // namespace ringrad
