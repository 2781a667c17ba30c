// Activations and other layers without parameters.

#pragma once

#include "ringrad/core/random.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// max(x, 0)
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return "ReLU()"; }
};

/// x * Phi(x), where Phi is the normal distribution function.
/// Paper: Hendrycks and Gimpel 2016, arXiv:1606.08415
class GELU : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return "GELU()"; }
};

/// 1 / (1 + exp(-x))
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return "Sigmoid()"; }
};

class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return "Tanh()"; }
};

/// x
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x, Where) override { return x; }
  std::string describe() const override { return "Identity()"; }
};

/// (B, ...) -> (B, product of the rest), in row-major order whatever the memory layout
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return "Flatten()"; }
};

/// In training, each element is 0 with probability p, and divided by 1 - p otherwise. In
/// evaluation, x.
/// Paper: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
/// overfitting"
class Dropout : public Module {
 public:
  /// Throws ValueError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5, Where where = Where::current());
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return concat("Dropout(", p_, ')'); }

 private:
  double p_;
};

}  // namespace ringrad::nn
