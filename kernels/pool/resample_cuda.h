// The kernels behind resample.h. Private to kernels/pool.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/pool/resample_axis.h"

namespace ringrad::kernels::cuda {

/// As their namesakes in resample_cpu.h, for tensors on a GPU.
void resample(const ResampleGeometry& g, const Tensor& x, const Tensor& y, Where where);
void resample_backward(const ResampleGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where);

}  // namespace ringrad::kernels::cuda
