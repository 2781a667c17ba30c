// The arrays of an optimizer step: their dtypes, and checks.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// The dtype of an optimizer's state for parameters of `dtype`: float64 for float64, else float32.
DType optimizer_state_dtype(DType dtype);

/// Throws unless parameters and gradients have one floating dtype and device, are contiguous, and
/// have equally many elements.
void check_step_arrays(const char* operation, const Tensor& parameters, const Tensor& gradients,
                       Where where);

/// Throws unless `state` is defined, contiguous, on the parameters' device, of as many elements as
/// they have, and of optimizer_state_dtype.
void check_step_state(const char* operation, const char* what, const Tensor& state,
                      const Tensor& parameters, Where where);

}  // namespace ringrad::kernels
