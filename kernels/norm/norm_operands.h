// Shared by normalizations: a check, and memory in the dtype of the statistics.
// Private to kernels/norm.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels::norm_operands {

inline DType statistics_dtype(const Tensor& x) {
  return x.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

inline void check_gradient(const char* operation, const Tensor& grad_output, const Tensor& x,
                           Where where) {
  RINGRAD_CHECK(grad_output.shape() == x.shape(), ShapeError, where, operation,
                ": the gradient must have the shape of x ", x.shape(), "; got ",
                grad_output.shape());
  check_same_dtype(operation, x, grad_output, where);
  check_same_device(operation, x, grad_output, where);
}

/// A result for x. It is zeros if x is empty, since kernels never see an empty x.
inline Tensor result_for(const Tensor& x, const Shape& shape, DType dtype, Where where) {
  const Options options{.dtype = dtype, .device = x.device()};
  return x.numel() > 0 ? empty(shape, options, where) : zeros(shape, options, where);
}

/// `result` itself if it has the dtype of the arithmetic, else memory for values to be rounded into
/// it.
inline Tensor unrounded(const Tensor& result, DType dtype, Where where) {
  return result.dtype() == dtype ? result : empty_like(result, dtype, where);
}

/// x, contiguous, in the dtype of the statistics; an undefined tensor stays undefined.
inline Tensor operand(const Tensor& x, DType dtype, Where where) {
  return x.defined() ? contiguous(cast(x, dtype, where), where) : x;
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace ringrad::kernels::norm_operands
