// Activations and other layers without parameters.

#pragma once

#include "ringrad/core/random/random.h"
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

/// x / (1 + exp(-x))
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return "SiLU()"; }
};

/// log(1 + exp(beta x)) / beta; x itself where beta x > threshold
class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override {
    return concat("Softplus(", beta_, ", ", threshold_, ')');
  }

 private:
  double beta_, threshold_;
};

/// x where x > 0, else slope x
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01) : slope_(slope) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return concat("LeakyReLU(", slope_, ')'); }

 private:
  double slope_;
};

/// x where x > 0, else alpha (exp(x) - 1)
class ELU : public Module {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return concat("ELU(", alpha_, ')'); }

 private:
  double alpha_;
};

/// x limited to [low, high]
class Hardtanh : public Module {
 public:
  /// Throws ValueError unless low <= high.
  explicit Hardtanh(double low = -1, double high = 1, Where where = Where::current());
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override { return concat("Hardtanh(", low_, ", ", high_, ')'); }

 private:
  double low_, high_;
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
