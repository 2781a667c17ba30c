// Vector versions of the functions of <cmath>.
//
// The C library has them (libmvec: exp, log, tanh, erf ... of 4, 8 or 16 elements at once, within 4
// units in the last place). It declares them only under -ffast-math, which would also drop NaN and
// infinity. Declaring them here lets any loop over std::exp and the like become vector code:
//
//     for (i) y[i] = std::exp(x[i]);        in a function marked RINGRAD_CLONES (core/simd.h)
//
// The last elements of a loop, which do not fill a vector, are computed one by one. So the last bit
// of an element may depend on its position in the array, but on nothing else.

#pragma once

#include <cmath>

#include "ringrad/core/simd.h"

#if RINGRAD_HAS_CLONES  // GCC on x86-64; clang has some of them by -fveclib=libmvec
#define RINGRAD_VECTOR_MATH __attribute__((simd("notinbranch")))
#define RINGRAD_UNARY_MATH(name)                     \
  RINGRAD_VECTOR_MATH float name##f(float) noexcept; \
  RINGRAD_VECTOR_MATH double name(double) noexcept;

extern "C" {
RINGRAD_UNARY_MATH(acos)
RINGRAD_UNARY_MATH(acosh)
RINGRAD_UNARY_MATH(asin)
RINGRAD_UNARY_MATH(asinh)
RINGRAD_UNARY_MATH(atan)
RINGRAD_UNARY_MATH(atanh)
RINGRAD_UNARY_MATH(cosh)
RINGRAD_UNARY_MATH(sinh)
RINGRAD_UNARY_MATH(tan)
RINGRAD_UNARY_MATH(exp)
RINGRAD_UNARY_MATH(expm1)
RINGRAD_UNARY_MATH(log)
RINGRAD_UNARY_MATH(log1p)
RINGRAD_UNARY_MATH(sin)
RINGRAD_UNARY_MATH(cos)
RINGRAD_UNARY_MATH(tanh)
RINGRAD_UNARY_MATH(erf)
RINGRAD_VECTOR_MATH float atan2f(float, float) noexcept;
RINGRAD_VECTOR_MATH double atan2(double, double) noexcept;
RINGRAD_VECTOR_MATH float powf(float, float) noexcept;
RINGRAD_VECTOR_MATH double pow(double, double) noexcept;
}

#undef RINGRAD_UNARY_MATH
#undef RINGRAD_VECTOR_MATH
#endif
