// The kernels behind softmax.h. Private to softmax.cc.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

// REQUIRES: all tensors are dense, and have one floating dtype and equal strides.
void softmax(const Tensor& x, int axis, const Tensor& y, Where where);
void softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                      const Tensor& grad_input, Where where);
void log_softmax(const Tensor& x, int axis, const Tensor& y, Where where);
void log_softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                          const Tensor& grad_input, Where where);

}  // namespace ringrad::kernels::cuda
