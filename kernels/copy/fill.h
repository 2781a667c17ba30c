// Writes one number into every element.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// x[...] = value, converted as copy_ converts. Elements of an expanded axis share one place in
/// memory, which is written once.
/// Throws:  ValueError if elements of x overlap in any other way
void fill_(const Tensor& x, Scalar value, Where where = Where::current());

/// x[...] = 0
void zero_(const Tensor& x, Where where = Where::current());

}  // namespace ringrad::kernels
