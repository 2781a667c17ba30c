// RMSprop.

#pragma once

#include "ringrad/nn/optimizer/optimizer.h"

namespace ringrad::nn {

struct RMSpropOptions {
  double learning_rate = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
};

///   g = grad + weight_decay * p
///   s = alpha * s + (1 - alpha) * g^2
///   u = g / (sqrt(s) + eps)
///   p = p - learning_rate * u                   or, with momentum,
///   v = momentum * v + u,    p = p - learning_rate * v
///
/// Throws:  ValueError unless 0 <= alpha <= 1 and the other options are finite and not negative
/// Paper:   Tieleman and Hinton 2012, "Lecture 6.5: rmsprop"
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(const ParameterGroups& parameters, const RMSpropOptions& options = {},
                   Where where = Where::current());

  void update(const Range& range, double grad_scale, Where where) override;

 private:
  RMSpropOptions options_;
};

}  // namespace ringrad::nn
