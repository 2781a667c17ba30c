// Softmax along one axis: scores become positive numbers that sum to one.
//
//     y_i = exp(x_i - m) / sum_j exp(x_j - m),    m = max_j x_j
//
// Subtracting the largest score changes nothing mathematically and keeps exp from overflowing:
// every exponent is at most 0 and one of them is 0, so the sum is at least 1.
//
// The logarithm of the softmax has its own operator, x_i - m - log sum_j exp(x_j - m), because the
// logarithm of a softmax that underflowed to 0 would be -inf.
//
// Results keep the memory order of a dense input. Sums accumulate in float32 for the 16-bit dtypes.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Shapes:  any; axis counts from the end if negative
/// DTypes:  every floating dtype
/// Throws:  DTypeError unless floating; ShapeError for an absent axis
Tensor softmax(const Tensor& x, std::int64_t axis, Where where = Where::current());

/// grad_input = y * (grad_output - sum(grad_output * y)),  the sum over the axis
///
/// Throws:  ShapeError, DTypeError unless grad_output and y agree
Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis,
                        Where where = Where::current());

/// y_i = x_i - m - log sum_j exp(x_j - m);  Shapes, DTypes, Throws: as softmax
Tensor log_softmax(const Tensor& x, std::int64_t axis, Where where = Where::current());

/// grad_input = grad_output - exp(y) * sum(grad_output),  the sum over the axis
Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis,
                            Where where = Where::current());

namespace cpu {

// REQUIRES: all tensors are dense, and have one floating dtype and equal strides.
void softmax(const Tensor& x, int axis, const Tensor& y);
void softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                      const Tensor& grad_input);
void log_softmax(const Tensor& x, int axis, const Tensor& y);
void log_softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                          const Tensor& grad_input);

}  // namespace cpu

namespace cuda {

// REQUIRES: all tensors are dense, and have one floating dtype and equal strides.
void softmax(const Tensor& x, int axis, const Tensor& y, Where where);
void softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                      const Tensor& grad_input, Where where);
void log_softmax(const Tensor& x, int axis, const Tensor& y, Where where);
void log_softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                          const Tensor& grad_input, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
