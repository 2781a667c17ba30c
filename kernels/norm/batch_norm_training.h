// Batch norm for training on one device, one call per direction. On a GPU the vendor's library
// computes it if backend.h chooses the library and the library supports the problem. Otherwise the
// passes of batch_norm.h run one after the other.

#pragma once

#include "ringrad/kernels/norm/batch_norm.h"

namespace ringrad::kernels {

struct BatchNormTraining {
  Tensor y{};
  Moments moments{};
  Tensor rstd{};
  Tensor mask{};  ///< where ReLU passes values, in the vendor's order; undefined from our passes
};

/// Moments of x, and y = (x - mean) * rstd * weight + bias + residual, then max(y, 0) if relu.
///
/// Throws: as batch_norm_moments and batch_norm_apply
BatchNormTraining batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   double eps, bool relu, const Tensor& residual = {},
                                   Where where = Where::current());

struct BatchNormBackward {
  BatchNormSums sums;
  BatchNormGradients gradients{};  ///< undefined unless `with_input`
};

/// The sums of batch_norm_backward_sums and, if `with_input`, the gradients of
/// batch_norm_backward_apply, for `rows` values per channel. `mask` comes from the forward pass; it
/// is undefined in evaluation.
///
/// Throws: as batch_norm_backward_sums
BatchNormBackward batch_norm_backward(const Tensor& grad_output, const BatchNormSaved& saved,
                                      const Tensor& mask, double rows, bool with_input,
                                      Where where = Where::current());

}  // namespace ringrad::kernels
