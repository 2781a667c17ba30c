// Adam and AdamW.

#pragma once

#include "ringrad/nn/optimizer/optimizer.h"

namespace ringrad::nn {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

///   g = grad + weight_decay * p                 decay is part of the gradient
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g^2
///   p = p - learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
///
/// where t counts the steps that have changed this parameter.
///
/// Throws:  ValueError unless 0 <= beta < 1 and the other options are finite and not negative
/// Paper:   Kingma and Ba 2014, arXiv:1412.6980
class Adam : public Optimizer {
 public:
  explicit Adam(const ParameterGroups& parameters, const AdamOptions& options = {},
                Where where = Where::current())
      : Adam(parameters, options, false, where) {}

  void update(const Range& range, double grad_scale, Where where) override;

 protected:
  Adam(const ParameterGroups& parameters, const AdamOptions& options, bool decoupled_decay,
       Where where);

 private:
  AdamOptions options_;
  bool decoupled_decay_;
};

/// Adam with p = p - learning_rate * weight_decay * p before each step, instead of decay in the
/// gradient.
///
/// Paper:   Loshchilov and Hutter 2017, arXiv:1711.05101
class AdamW : public Adam {
 public:
  explicit AdamW(const ParameterGroups& parameters,
                 const AdamOptions& options = {.weight_decay = 0.01},
                 Where where = Where::current())
      : Adam(parameters, options, true, where) {}
};

}  // namespace ringrad::nn
