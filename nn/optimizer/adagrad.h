// Adagrad.

#pragma once

#include "ringrad/nn/optimizer/optimizer.h"

namespace ringrad::nn {

struct AdagradOptions {
  double learning_rate = 0.01;
  double learning_rate_decay = 0;
  double weight_decay = 0;
  double initial_sum = 0;  ///< the value with which every s begins
  double eps = 1e-10;
};

///   g = grad + weight_decay * p
///   s = s + g^2
///   p = p - learning_rate / (1 + (t - 1) * learning_rate_decay) * g / (sqrt(s) + eps)
///
/// where t counts the steps that have changed this parameter.
///
/// Throws:  ValueError unless all options are finite and not negative
/// Paper:   Duchi, Hazan, Singer 2011, "Adaptive subgradient methods for online learning and
///          stochastic optimization"
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const ParameterGroups& parameters, const AdagradOptions& options = {},
                   Where where = Where::current());

  void update(const Range& range, double grad_scale, Where where) override;

 private:
  AdagradOptions options_;
};

}  // namespace ringrad::nn
