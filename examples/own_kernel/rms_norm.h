// An operator with kernels of its own: rms_norm.cu.

#pragma once

#include "core/tensor.h"

/// y = x / sqrt(mean(x^2) + epsilon), the mean over the last axis (Zhang and Sennrich, 2019). Differentiable once.
///
/// Shapes:  x (..., n) with n > 0; y as x
/// Dtypes:  float32, on a GPU, contiguous
/// Throws:  ringrad::ValueError for anything else
ringrad::Tensor rms_norm(const ringrad::Tensor& x, float epsilon = 1e-6f,
                         ringrad::Where where = ringrad::Where::current());
