// Operators that change a tensor's memory: y becomes the result, under all its names and in all its
// views.
//
// In-place changes are not recorded. They are for tensors without history and for code under
// NoGradGuard (optimizers, statistics, initialisation). While operations are recorded, changing a
// tensor that requires a gradient throws AutogradError, whatever writes: these functions, a random
// fill, a collective (Tensor::check_writable()). The version counter reveals any tensor that was
// changed after it was saved for backward, when backward reads it; the error names both lines.
//
// Shapes:  x broadcasts to y's shape
// DTypes:  y keeps its dtype, and x is converted to it before the operation
// Throws:  AutogradError if y or x requires a gradient while operations are recorded; ShapeError if
//          x does not broadcast to y's shape; DeviceError; DTypeError if y cannot hold the result
//          (floats in integers, numbers in bool); ValueError if two elements of y share one place
//          in memory, as in an expanded tensor; fill_ and zero_, which write the same value to all
//          elements, accept expanded tensors

#pragma once

#include <initializer_list>
#include <span>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// y += alpha x. Returns y, as do all functions here.
Tensor add_(const Tensor& y, const Tensor& x, Scalar alpha = 1, Where where = Where::current());
Tensor add_(const Tensor& y, Scalar x, Where where = Where::current());
/// y -= x
Tensor sub_(const Tensor& y, const Tensor& x, Where where = Where::current());
Tensor sub_(const Tensor& y, Scalar x, Where where = Where::current());
/// y *= x
Tensor mul_(const Tensor& y, const Tensor& x, Where where = Where::current());
Tensor mul_(const Tensor& y, Scalar x, Where where = Where::current());
/// y /= x. Throws DTypeError unless y is floating.
Tensor div_(const Tensor& y, const Tensor& x, Where where = Where::current());
Tensor div_(const Tensor& y, Scalar x, Where where = Where::current());

/// y = x, converted and broadcast as in kernels/copy/copy.h, from any device.
Tensor copy_(const Tensor& y, const Tensor& x, Where where = Where::current());
/// Sets every element to `value`.
Tensor fill_(const Tensor& y, Scalar value, Where where = Where::current());
/// Sets every element to 0.
Tensor zero_(const Tensor& y, Where where = Where::current());

/// x[{...}] = y, also with tensors and negative steps among the indices (brackets.h): assign(x,
/// {mask}, 0), assign(x, {rows, Slice(0, 5)}, y). If several values go to one place, the last one
/// stays.
///
/// Shapes:  y broadcasts to the shape of x[{...}]
/// Throws:  as x[{...}] does
Tensor assign(const Tensor& x, std::span<const Index> indices, const Tensor& y,
              Where where = Where::current());
Tensor assign(const Tensor& x, std::initializer_list<Index> indices, const Tensor& y,
              Where where = Where::current());
Tensor assign(const Tensor& x, std::span<const Index> indices, Scalar y,
              Where where = Where::current());
Tensor assign(const Tensor& x, std::initializer_list<Index> indices, Scalar y,
              Where where = Where::current());

/// The same as operators: y += x is add_(y, x).
Tensor operator+=(Located y, Located x);
Tensor operator+=(Located y, Scalar x);
Tensor operator-=(Located y, Located x);
Tensor operator-=(Located y, Scalar x);
Tensor operator*=(Located y, Located x);
Tensor operator*=(Located y, Scalar x);
Tensor operator/=(Located y, Located x);
Tensor operator/=(Located y, Scalar x);

}  // namespace ringrad
