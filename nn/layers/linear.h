// Linear: y = x weight^T + bias.

#pragma once

#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// Parameters:  weight (out_features, in_features), bias (out_features), both from
///              U(-1/sqrt(in_features), 1/sqrt(in_features))
/// Shapes:      (..., in_features)  ->  (..., out_features)
/// Throws:      ValueError unless both counts are positive
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias = true,
         Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  /// One pass: the activation is part of the matrix product's epilogue. In a derived class, whose
  /// forward() may differ, relu(forward(x)).
  Tensor forward_relu(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias
};

}  // namespace ringrad::nn
