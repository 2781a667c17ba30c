// BatchNorm1d and BatchNorm2d: normalization by the statistics of the batch.

#pragma once

#include <functional>

#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;  ///< with weight and bias
};

/// A function that replaces ringrad::batch_norm, with the same arguments.
using BatchNormFunction = std::function<Tensor(
    const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
    const Tensor& running_var, const ringrad::BatchNormOptions& options, const Tensor& residual,
    Where where)>;

/// The common part of BatchNorm1d and BatchNorm2d, which accept different shapes.
///
/// Parameters:  weight (C) of ones, bias (C) of zeros
/// Buffers:     running_mean (C) of zeros, running_var (C) of ones
/// Throws:      ValueError unless C > 0, eps is finite and not negative, and 0 <= momentum <= 1
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  /// One pass: the activation is applied while the normalised value is in a register. In a class
  /// derived from BatchNorm1d or BatchNorm2d, relu(forward(x)).
  Tensor forward_relu(const Tensor& x, Where at = Where::current()) override;
  /// relu(forward(x) + residual), the end of a residual block, also in one pass.
  Tensor forward_add_relu(const Tensor& x, const Tensor& residual, Where at = Where::current());
  /// From now on, normalises with this function in training, for example with one over many ranks.
  /// An empty function restores ringrad::batch_norm.
  void train_with(BatchNormFunction function) { training_function_ = std::move(function); }
  bool trains_with_function() const { return static_cast<bool>(training_function_); }
  std::string describe() const override;

  Tensor weight, bias;  ///< undefined unless affine
  Tensor running_mean, running_var;

 protected:
  BatchNorm(const char* name, std::int64_t channels, const BatchNormOptions& options, Where where);
  /// Throws ShapeError for a shape that the layer does not accept.
  virtual void check_shape(const Shape& shape, Where where) const = 0;

 private:
  bool is_plain() const;
  Tensor normalize(const Tensor& x, bool relu, const Tensor& residual, Where where);

  const char* name_;
  BatchNormOptions options_;
  BatchNormFunction training_function_;
};

/// Shapes: (B, C) or (B, C, L), like the input
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t channels, const BatchNormOptions& options = {},
                       Where where = Where::current())
      : BatchNorm("BatchNorm1d", channels, options, where) {}

 protected:
  void check_shape(const Shape& shape, Where where) const override;
};

/// Shapes: (B, C, H, W), like the input
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t channels, const BatchNormOptions& options = {},
                       Where where = Where::current())
      : BatchNorm("BatchNorm2d", channels, options, where) {}

 protected:
  void check_shape(const Shape& shape, Where where) const override;
};

}  // namespace ringrad::nn
