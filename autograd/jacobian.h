// Derivatives of functions as tensors: all partial derivatives, and products with them.
//
//     const Tensor J = jacobian([](const Tensor& x) { return matmul(A, x); }, x);     A
//     const Tensor H = hessian([](const Tensor& x) { return sum(x * x * x); }, x);    diagonal, 6 x
//
// The functions may do anything that is recorded. They are called once, with x detached from its
// history, so a derivative holds no history.

#pragma once

#include <functional>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A function of one tensor.
using TensorFunction = std::function<Tensor(const Tensor& x)>;

/// All partial derivatives. Costs a backward pass per element of the result.
///
///   J[i.., j..] = d f(x)[i..] / d x[j..]
///
/// Shapes:  x (J..), f(x) (I..)  ->  (I.., J..), of at most 8 axes
/// Throws:  DTypeError unless x is floating; what f throws
Tensor jacobian(const TensorFunction& f, const Tensor& x, Where where = Where::current());

/// All second derivatives of a function of one result. Costs a backward pass per element of x.
///
///   H[i.., j..] = d^2 f(x) / (d x[i..] d x[j..])
///
/// Throws:  as jacobian; AutogradError unless f gives one element
Tensor hessian(const TensorFunction& f, const Tensor& x, Where where = Where::current());

/// The derivative of f in direction v, J v: forward mode, by two backward passes. The first one's
/// result J^T u is linear in u, and the second differentiates it by u.
///
/// Shapes:  v like x  ->  like f(x)
/// Throws:  as jacobian; ShapeError unless v is like x
/// Paper:   Townsend 2017, "A new trick for calculating Jacobian vector products"
Tensor jvp(const TensorFunction& f, const Tensor& x, const Tensor& v,
           Where where = Where::current());

}  // namespace ringrad
