// Shared by normalizations of channels: checks of arguments. Private to kernels/norm.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::channel_norm {

inline void check_input(const char* operation, const Tensor& x, Where where) {
  check_floating(operation, x, where);
  RINGRAD_CHECK(x.dims() >= 2, ShapeError, where, operation, ": x must be (B, C, ...); got shape ",
                x.shape());
}

/// `vector` may be undefined.
inline void check_vector(const char* operation, const char* what, const Tensor& vector,
                         const Tensor& x, Where where) {
  if (!vector.defined()) return;
  check_floating(operation, vector, where);
  check_same_device(operation, x, vector, where);
  RINGRAD_CHECK(vector.shape() == Shape{x.shape()[1]}, ShapeError, where, operation, ": ", what,
                " must have one value per channel; got ", vector.shape(), " for x ", x.shape());
}

}  // namespace ringrad::kernels::channel_norm
