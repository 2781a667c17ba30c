// The loops behind resample.h. Private to kernels/pool.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/pool/resample_axis.h"

namespace ringrad::kernels::cpu {

/// REQUIRES: tensors are dense, in the memory order that the geometry describes
void resample(const ResampleGeometry& g, const Tensor& x, const Tensor& y, Where where);
void resample_backward(const ResampleGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where);

}  // namespace ringrad::kernels::cpu
