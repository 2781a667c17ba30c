// Checks of the numbers that normalizations take; shared with the layers.

#pragma once

#include <limits>

#include "ringrad/core/base/error.h"

namespace ringrad {

/// Throws ValueError unless 0 <= eps, and eps is a finite float32. eps = 0 is for rows that are
/// known not to be constant.
inline void check_eps(const char* operation, double eps, Where where) {
  RINGRAD_CHECK(eps >= 0 && eps <= std::numeric_limits<float>::max(), ValueError, where, operation,
                ": eps must be finite and not negative; got ", eps);
}

/// Throws ValueError unless 0 <= momentum <= 1.
inline void check_norm_momentum(const char* operation, double momentum, Where where) {
  RINGRAD_CHECK(momentum >= 0 && momentum <= 1, ValueError, where, operation,
                ": momentum must be in [0, 1]; got ", momentum);
}

}  // namespace ringrad
