// Muon: momentum made orthogonal, for the matrices inside a network.
//
//     std::vector<Tensor> hidden = ..., others = ...;     weights of hidden layers; all the rest
//     nn::Muon muon(hidden, {.learning_rate = 0.02});
//     nn::AdamW adam(others, {.learning_rate = 3e-4});
//
// A gradient of a weight matrix is often close to a few directions. Muon replaces the momentum's
// singular values by about 1, so that a step moves all directions alike. Five Newton-Schulz
// iterations do it, with matrix products only.
//
// Not for embeddings, output layers, biases and norms: give those to another optimizer.

#pragma once

#include "ringrad/nn/optimizer/optimizer.h"

namespace ringrad::nn {

struct MuonOptions {
  double learning_rate = 0.02;
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0.1;  ///< decoupled
  int iterations = 5;
  /// The dtype of the iterations' products. They need not be exact; bfloat16 is fast on GPUs.
  DType dtype = DType::bfloat16;
  /// Makes updates as large as AdamW's, so that its rates fit: see the formula.
  bool match_adamw = false;
};

/// For a parameter of n rows and m columns:
///
///   v = momentum * v + (1 - momentum) * grad
///   u = (1 - momentum) * grad + momentum * v      or, without nesterov, v
///   p = p - learning_rate * (c * orthogonalized(u) + weight_decay * p)
///
/// where c = sqrt(max(1, n / m)), or 0.2 sqrt(max(n, m)) with match_adamw.
///
/// Throws:  ShapeError unless all parameters have two axes; ValueError unless 0 <= momentum < 1,
///          iterations > 0 and the other options are finite and not negative, or for a matrix that
///          is split over ranks (tensor_parallel.h), since a rank's slice has other singular
///          values; DTypeError unless dtype is floating
/// Paper:   Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks";
///          match_adamw: Liu et al. 2025, arXiv:2502.16982, section 2.2
class Muon : public Optimizer {
 public:
  explicit Muon(const ParameterGroups& parameters, const MuonOptions& options = {},
                Where where = Where::current());

  void update(const Range& range, double grad_scale, Where where) override;

 private:
  void update_matrix(const Range& range, const Tensor& parameter, double grad_scale, Where where);

  MuonOptions options_;
};

/// A matrix with the singular vectors of x, whose singular values lie between about 0.7 and 1.2:
/// with X = x / |x|, repeatedly
///
///   A = X X^T,    X = 3.4445 X + (-4.7750 A + 2.0315 A^2) X
///
/// The coefficients make small singular values grow fastest; they do not converge to 1.
///
/// Shapes:  x (n, m)  ->  (n, m)
/// DTypes:  of x; products are computed in `dtype`
Tensor orthogonalized(const Tensor& x, int iterations = 5, DType dtype = DType::bfloat16,
                      Where where = Where::current());

}  // namespace ringrad::nn
