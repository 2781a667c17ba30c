// Writing one number into every element.

#pragma once

#include "core/tensor.h"

namespace ringrad::kernels {

/// x[...] = value, converted as copy_ converts.
/// Throws:  ValueError if two elements of x are one place in memory, as in an expanded tensor
void fill_(const Tensor& x, Scalar value, Where where = Where::current());

/// x[...] = 0
void zero_(const Tensor& x, Where where = Where::current());

}  // namespace ringrad::kernels
