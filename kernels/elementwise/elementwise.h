// Elementwise operators on raw tensors: y[i] = op(x[i]) and y[i] = op(a[i], b[i]), for every row of
// the headers elementwise_*_ops.h.
//
// Operands broadcast as in NumPy and are promoted to a common dtype (core/dtype.h); the row's
// domain then gives the dtype of the result. The result has the memory order of the first dense
// operand of its shape, so channels_last stays channels_last.
//
// The elementwise_*_rows.inc files list which rows exist for which template. map_cpu.h and
// map_cuda.cuh describe how the elements are visited.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/elementwise/elementwise_activation_ops.h"
#include "ringrad/kernels/elementwise/elementwise_binary_ops.h"
#include "ringrad/kernels/elementwise/elementwise_curve_ops.h"
#include "ringrad/kernels/elementwise/elementwise_discrete_ops.h"
#include "ringrad/kernels/elementwise/elementwise_scalar_ops.h"
#include "ringrad/kernels/elementwise/elementwise_unary_ops.h"

namespace ringrad::kernels {

/// y[i] = op.forward(x[i])
///
/// DTypes:  as op.kDomain says; bool if op.forward gives bool
/// Throws:  DTypeError for bool in the domain `number`; ValueError for a number that x's dtype
///          cannot hold
template <class Op>
Tensor unary(const Op& op, const Tensor& x, Where where = Where::current());

/// The same into existing memory, which may be x's. x is first converted to out's dtype.
///
/// Throws:  ShapeError unless out has x's shape; DTypeError if its dtype cannot hold the result;
///          ValueError if two elements of out share one place in memory
template <class Op>
void unary(const Op& op, const Tensor& x, const Tensor& out, Where where = Where::current());

/// grad_input[i] = op.backward(grad_output[i], saved[i]), where op.kSaves says what `saved` is.
/// Rows that save nothing have no such loop: their derivative is a single operator anyway.
///
/// REQUIRES: floating dtypes, equal shapes and devices
template <class Op>
Tensor unary_backward(const Op& op, const Tensor& grad_output, const Tensor& saved,
                      Where where = Where::current());

/// y[i] = Op::forward(a[i], b[i])
///
/// Shapes:  a and b broadcast
/// DTypes:  promote(a, b), then as Op::kDomain says; bool if Op::forward gives bool
/// Throws:  ShapeError, DTypeError, DeviceError
template <class Op>
Tensor binary(const Tensor& a, const Tensor& b, Where where = Where::current());

/// The same into existing memory, which may be a's or b's. Throws as unary does.
template <class Op>
void binary(const Tensor& a, const Tensor& b, const Tensor& out, Where where = Where::current());

/// y[i] += alpha x[i], where x broadcasts to y's shape and is first converted to y's dtype.
/// Throws:  ShapeError, DTypeError, DeviceError
void add_(const Tensor& y, const Tensor& x, Scalar alpha = 1, Where where = Where::current());

/// Op::backward_a(grad_output[i], a[i], b[i]), with the shape and dtype of grad_output. The caller
/// must still sum over the axes that a was broadcast along. Only for rows whose derivative uses
/// both operands; other derivatives are a single operator.
///
/// REQUIRES: a and b broadcast to grad_output's shape and are on its device
template <class Op>
Tensor binary_backward_a(const Tensor& grad_output, const Tensor& a, const Tensor& b,
                         Where where = Where::current());

/// The same for Op::backward_b.
template <class Op>
Tensor binary_backward_b(const Tensor& grad_output, const Tensor& a, const Tensor& b,
                         Where where = Where::current());

/// y[i] = condition[i] ? a[i] : b[i]
///
/// Shapes:  all three broadcast
/// DTypes:  condition bool; y promote(a, b)
/// Throws:  ShapeError, DTypeError, DeviceError
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b,
             Where where = Where::current());

/// y[i] = a[i] + weight[i] (b[i] - a[i])
///
/// Shapes:  all three broadcast
/// DTypes:  promote(a, b, weight), and integers become float32
/// Throws:  ShapeError, DeviceError
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight, Where where = Where::current());

}  // namespace ringrad::kernels
