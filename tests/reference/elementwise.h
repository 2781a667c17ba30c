// The specification of elementwise operators: y[i] = f(a[i], b[i], ...) in double, element by
// element, over the NumPy broadcast of the operands.

#pragma once

#include <functional>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad::reference {

/// A function of as many numbers as there are operands.
using Formula = std::function<double(const std::vector<double>& operands)>;

/// A float64 tensor of the operands' broadcast shape.
Tensor elementwise(const Formula& f, const std::vector<Tensor>& operands);

/// The sum over the axes along which `shape` was broadcast to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace ringrad::reference
