// Batch normalization, optionally with the two steps that often follow it: a residual's sum, and
// ReLU.
//
// Extents: C channels (axis 1).

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

struct BatchNormOptions {
  bool training = true;   ///< normalise by this batch's statistics, and update the running ones
  double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * this batch's
  double eps = 1e-5;
  bool relu = false;  ///< max(y, 0) at the end, in the same pass over memory
};

///   y = (x - mean) / sqrt(var + eps) * weight + bias [+ residual]
///
/// mean and var are taken over all axes except axis 1: those of the batch in training, else
/// running_mean and running_var. As in PyTorch, the running variance is unbiased, but the variance
/// used to normalise is not. Undefined running statistics are neither used nor updated.
///
/// Shapes:  x (B, C, ...); weight, bias, running_mean, running_var (C), weight and bias may be
///          undefined; residual like x, or undefined  ->  like x
/// DTypes:  every floating dtype
/// Saves:   x, weight, bias, mean (C), rstd (C), with ReLU the residual; never y
/// Throws:  ShapeError unless the vectors are (C) and residual is like x, or if training has fewer
///          than two values per channel; ValueError when evaluating without running statistics,
///          for an eps that is negative or not finite, or a momentum outside [0, 1];
///          AutogradError for running statistics that require a gradient; DTypeError, DeviceError
/// Paper:   Ioffe and Szegedy 2015, arXiv:1502.03167
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {}, const Tensor& residual = {},
                  Where where = Where::current());

}  // namespace ringrad
