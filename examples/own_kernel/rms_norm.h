// An operator that has its own kernels: rms_norm.cu.

#pragma once

#include "ringrad/core/tensor.h"

/// y = x / sqrt(mean(x^2) + epsilon), the mean over the last axis (Zhang and Sennrich, 2019).
/// Differentiable once.
///
/// Shapes:  x (..., n), with elements and less than 2^31 rows; y as x
/// Dtypes:  float32, on a GPU, contiguous
/// Throws:  ringrad::ValueError for anything else; AutogradError from a backward pass with
/// create_graph
ringrad::Tensor rms_norm(const ringrad::Tensor& x, float epsilon = 1e-6f,
                         ringrad::Where where = ringrad::Where::current());
