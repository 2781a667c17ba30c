// check_fits(): numbers that a dtype cannot hold are errors, not other numbers.

#pragma once

#include "ringrad/core/base/error.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/scalar.h"

namespace ringrad {

/// Throws ValueError unless an element of the dtype can hold the number, or its whole part. Never
/// throws for floating dtypes, which round every number, or for bool, which holds its truth value.
void check_fits(const char* operation, Scalar number, DType dtype, Where where);

/// Throws ValueError "<operation>: <what> must be finite; got nan" for NaN and infinities.
void check_finite(const char* operation, const char* what, double number, Where where);

}  // namespace ringrad
