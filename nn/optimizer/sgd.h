// Stochastic gradient descent with momentum.

#pragma once

#include "ringrad/nn/optimizer/optimizer.h"

namespace ringrad::nn {

struct SGDOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

///   g = grad + weight_decay * p
///   v = g                                       in the parameter's first step, then
///   v = momentum * v + (1 - dampening) * g
///   p = p - learning_rate * v                   or, with nesterov,
///   p = p - learning_rate * (g + momentum * v)
///
/// Throws:  ValueError unless all options are finite and not negative, or for nesterov without
///          momentum or with dampening
/// Paper:   Sutskever, Martens, Dahl, Hinton 2013, "On the importance of initialization and
///          momentum in deep learning"
class SGD : public Optimizer {
 public:
  explicit SGD(const ParameterGroups& parameters, const SGDOptions& options = {},
               Where where = Where::current());

  void update(const Range& range, double grad_scale, Where where) override;

 private:
  SGDOptions options_;
};

}  // namespace ringrad::nn
