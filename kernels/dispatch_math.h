// dispatch_math(): the type of the arithmetic on a floating dtype.

#pragma once

#include "ringrad/core/dtype.h"

namespace ringrad::kernels {

/// Calls `body.operator()<T>()` with double for float64, and with float for all other dtypes.
template <class Body>
decltype(auto) dispatch_math(DType dtype, Body&& body) {
  if (dtype == DType::float64) return body.template operator()<double>();
  return body.template operator()<float>();
}

}  // namespace ringrad::kernels
