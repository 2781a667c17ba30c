// LayerNorm, RMSNorm: normalization over the last axis.

#pragma once

#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// Parameters:  weight (features) of ones, bias (features) of zeros
/// Shapes:      (..., features), like the input
/// Throws:      ValueError unless features > 0, and eps is finite and not negative
class LayerNorm : public Module {
 public:
  explicit LayerNorm(std::int64_t features, double eps = 1e-5, Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight, bias;

 private:
  double eps_;
};

/// By the root mean square alone.
///
/// Parameters:  weight (features) of ones
/// Shapes:      (..., features), like the input
/// Throws:      ValueError unless features > 0, and eps is finite and not negative
class RMSNorm : public Module {
 public:
  explicit RMSNorm(std::int64_t features, double eps = 1e-5, Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;

 private:
  double eps_;
};

}  // namespace ringrad::nn
