#include "ringrad/autograd/gradient_check.h"

#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

Tensor random_weights(const Tensor& like) {
  Generator generator(12345);
  Tensor weights = empty(like.shape(), {.dtype = DType::float64, .device = like.device()});
  uniform_(weights, 0.5, 1.5, generator);
  return weights;
}

// sum(weights * f(inputs)) as a plain number.
double weighted_sum(const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
                    const Tensor& weights) {
  const NoGradGuard guard;
  return sum(mul(f(inputs), weights)).item<double>();
}

std::vector<Tensor> fresh_leaves(const std::vector<Tensor>& inputs, Where where) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) {
    if (!x.requires_grad()) {
      leaves.push_back(x);
      continue;
    }
    RINGRAD_CHECK(x.dtype() == DType::float64, DTypeError, where,
                  "gradient_check: inputs that require a gradient must be float64; got ",
                  x.dtype());
    Tensor leaf = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()}, where);
    const std::vector<double> values = x.to_vector<double>();
    copy_bytes(leaf.raw_data(), leaf.device(), values.data(), Device(),
               values.size() * sizeof(double), where);
    leaves.push_back(leaf.set_requires_grad());
  }
  return leaves;
}

}  // namespace

std::string gradient_check(const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
                           const GradientCheckOptions& options, Where where) {
  const std::vector<Tensor> leaves = fresh_leaves(inputs, where);
  const Tensor output = f(leaves);
  const Tensor weights = random_weights(output);
  if (output.requires_grad()) output.backward(weights, {}, where);

  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Tensor& leaf = leaves[i];
    if (!leaf.requires_grad()) continue;
    const Tensor analytic = leaf.grad();
    const std::vector<double> gradient =
        analytic.defined() ? analytic.to_vector<double>()
                           : std::vector<double>(static_cast<std::size_t>(leaf.numel()), 0.0);
    const std::vector<double> original = leaf.to_vector<double>();
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      const auto f_with = [&](double value) {
        copy_bytes(leaf.device_data<double>() + j, leaf.device(), &value, Device(), sizeof value,
                   where);
        return weighted_sum(f, leaves, weights);
      };
      const double above = f_with(original[j] + options.step);
      const double below = f_with(original[j] - options.step);
      copy_bytes(leaf.device_data<double>() + j, leaf.device(), &original[j], Device(),
                 sizeof(double), where);
      const double numeric = (above - below) / (2 * options.step);
      const double tolerance =
          options.absolute_tolerance + options.relative_tolerance * std::abs(numeric);
      if (!(std::abs(gradient[j] - numeric) <= tolerance))
        return concat("the gradient of input ", i, " at element ", j, " must be ", numeric,
                      " by central differences; backward gave ", gradient[j]);
    }
  }
  return "";
}

std::string gradient_gradient_check(const DifferentiableFunction& f,
                                    const std::vector<Tensor>& inputs,
                                    const GradientCheckOptions& options, Where where) {
  // Joins the gradients of all inputs into one sum, each with its own weights.
  const DifferentiableFunction gradient_of_f = [&](const std::vector<Tensor>& leaves) {
    const EnableGradGuard guard;
    // Under finite differences the outer call is not recorded, but the inner gradient needs a tape.
    std::vector<Tensor> differentiable;
    for (const Tensor& x : leaves)
      if (x.requires_grad()) differentiable.push_back(x);
    const Tensor output = f(leaves);
    const Tensor weights = random_weights(output);
    const std::vector<Tensor> gradients =
        grad({&output, 1}, differentiable, {&weights, 1}, {.create_graph = true}, where);
    Tensor total = zeros({}, {.dtype = DType::float64, .device = differentiable[0].device()});
    for (const Tensor& gradient : gradients)
      if (gradient.defined()) total = add(total, sum(mul(gradient, random_weights(gradient))));
    return total;
  };
  return gradient_check(gradient_of_f, inputs, options, where);
}

}  // namespace ringrad
