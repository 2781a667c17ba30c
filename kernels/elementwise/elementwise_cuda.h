// The kernels behind elementwise.h. Private to kernels/elementwise*.
//
// REQUIRES: arguments are checked; `out` has its final shape and dtype. `dtype` is the one that a
// row computes in, before 16-bit floats become float32.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::kernels::cuda {

template <class Op>
void unary(const Op& op, DType dtype, const Tensor& x, const Tensor& out, Where where);

template <class Op>
void unary_backward(const Op& op, const Tensor& grad_output, const Tensor& saved, const Tensor& out,
                    Where where);

template <class Op>
void binary(DType dtype, const Tensor& a, const Tensor& b, const Tensor& out, Where where);

/// Backward is BackwardA or BackwardB of a row.
template <class Backward>
void binary_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b, const Tensor& out,
                     Where where);

/// y += alpha x
void add_scaled(const Tensor& y, const Tensor& x, Scalar alpha, Where where);

/// a + weight (b - a)
void lerp(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& out, Where where);

void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out,
           Where where);

}  // namespace ringrad::kernels::cuda
