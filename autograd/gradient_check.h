// Checks gradients against central differences, for tests and for students.
//
//     numeric_j = (f(x + h e_j) - f(x - h e_j)) / 2h
//     analytic  = backward's Jacobian-vector product
//
// The function's results are weighted with fixed random numbers, so that one backward pass checks
// all of its outputs.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A function of tensors, made of differentiable operators.
using DifferentiableFunction = std::function<Tensor(const std::vector<Tensor>& inputs)>;

struct GradientCheckOptions {
  double step = 1e-6;
  double absolute_tolerance = 1e-5;
  double relative_tolerance = 1e-3;
};

/// Returns "" if the gradients of f at `inputs` agree with central differences, else a sentence
/// that names the input, the element and both values.
///
/// DTypes:  float64; every input that requires a gradient is checked
/// Throws:  DTypeError if a checked input is not float64
std::string gradient_check(const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
                           const GradientCheckOptions& options = {},
                           Where where = Where::current());

/// The same for the gradient of the gradient: checks x -> d(sum w f(x))/dx, recorded with
/// create_graph.
std::string gradient_gradient_check(const DifferentiableFunction& f,
                                    const std::vector<Tensor>& inputs,
                                    const GradientCheckOptions& options = {},
                                    Where where = Where::current());

}  // namespace ringrad
