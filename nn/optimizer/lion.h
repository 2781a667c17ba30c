// Lion: steps of one size, in the direction of a momentum's signs.

#pragma once

#include "ringrad/nn/optimizer/optimizer.h"

namespace ringrad::nn {

/// Every step has the size of the learning rate in each element, so rates are smaller than Adam's,
/// by a factor of 3 to 10, and weight decays larger by the same factor.
struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

///   u = sign(beta1 * m + (1 - beta1) * grad)
///   p = p - learning_rate * (u + weight_decay * p)
///   m = beta2 * m + (1 - beta2) * grad
///
/// Throws:  ValueError unless 0 <= beta < 1 and the other options are finite and not negative
/// Paper:   Chen et al. 2023, arXiv:2302.06675, algorithm 2
class Lion : public Optimizer {
 public:
  explicit Lion(const ParameterGroups& parameters, const LionOptions& options = {},
                Where where = Where::current());

  void update(const Range& range, double grad_scale, Where where) override;

 private:
  LionOptions options_;
};

}  // namespace ringrad::nn
