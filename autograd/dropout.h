// Dropout; kernels/elementwise/dropout.h has the formula.

#pragma once

#include "ringrad/core/random/random.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// In training, sets each element to 0 with probability p, and divides it by 1 - p otherwise.
/// Returns x itself outside training, or if p = 0.
///
/// Shapes:  any
/// DTypes:  every floating dtype
/// Saves:   one byte per element
/// Throws:  ValueError unless 0 <= p <= 1; DTypeError
/// Paper:   Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014, JMLR 15
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator& generator = default_generator(), Where where = Where::current());

}  // namespace ringrad
