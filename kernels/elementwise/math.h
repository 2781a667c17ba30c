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

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(RINGRAD_SANITIZE)
#define RINGRAD_VECTOR_MATH __attribute__((simd("notinbranch")))

extern "C" {
RINGRAD_VECTOR_MATH float acosf(float) noexcept;
RINGRAD_VECTOR_MATH float acoshf(float) noexcept;
RINGRAD_VECTOR_MATH float asinf(float) noexcept;
RINGRAD_VECTOR_MATH float asinhf(float) noexcept;
RINGRAD_VECTOR_MATH float atanf(float) noexcept;
RINGRAD_VECTOR_MATH float atanhf(float) noexcept;
RINGRAD_VECTOR_MATH float coshf(float) noexcept;
RINGRAD_VECTOR_MATH float sinhf(float) noexcept;
RINGRAD_VECTOR_MATH float tanf(float) noexcept;
RINGRAD_VECTOR_MATH float atan2f(float, float) noexcept;
RINGRAD_VECTOR_MATH float expf(float) noexcept;
RINGRAD_VECTOR_MATH float expm1f(float) noexcept;
RINGRAD_VECTOR_MATH float logf(float) noexcept;
RINGRAD_VECTOR_MATH float log1pf(float) noexcept;
RINGRAD_VECTOR_MATH float sinf(float) noexcept;
RINGRAD_VECTOR_MATH float cosf(float) noexcept;
RINGRAD_VECTOR_MATH float tanhf(float) noexcept;
RINGRAD_VECTOR_MATH float erff(float) noexcept;
RINGRAD_VECTOR_MATH float powf(float, float) noexcept;
RINGRAD_VECTOR_MATH double acos(double) noexcept;
RINGRAD_VECTOR_MATH double acosh(double) noexcept;
RINGRAD_VECTOR_MATH double asin(double) noexcept;
RINGRAD_VECTOR_MATH double asinh(double) noexcept;
RINGRAD_VECTOR_MATH double atan(double) noexcept;
RINGRAD_VECTOR_MATH double atanh(double) noexcept;
RINGRAD_VECTOR_MATH double cosh(double) noexcept;
RINGRAD_VECTOR_MATH double sinh(double) noexcept;
RINGRAD_VECTOR_MATH double tan(double) noexcept;
RINGRAD_VECTOR_MATH double atan2(double, double) noexcept;
RINGRAD_VECTOR_MATH double exp(double) noexcept;
RINGRAD_VECTOR_MATH double expm1(double) noexcept;
RINGRAD_VECTOR_MATH double log(double) noexcept;
RINGRAD_VECTOR_MATH double log1p(double) noexcept;
RINGRAD_VECTOR_MATH double sin(double) noexcept;
RINGRAD_VECTOR_MATH double cos(double) noexcept;
RINGRAD_VECTOR_MATH double tanh(double) noexcept;
RINGRAD_VECTOR_MATH double erf(double) noexcept;
RINGRAD_VECTOR_MATH double pow(double, double) noexcept;
}

#undef RINGRAD_VECTOR_MATH
#endif
