// Batch normalization over every axis but axis 1, optionally followed by the end of a residual
// block: the sum with a residual, then ReLU.
//
//     mean[c] = mean of x[:, c, ...]           rstd = 1 / sqrt(var + eps)
//     var[c] = mean of (x - mean)^2            xhat = (x - mean) * rstd
//     y = xhat * weight + bias                 then y + residual, then max(y, 0) with ReLU
//
// The work is split into passes, so that several devices can normalise as one. Each device computes
// its moments, they are merged across devices, and then each device normalises. The gradient's two
// sums are merged in the same way.
//
//     forward     batch_norm_moments          ->  batch_norm_apply
//     backward    batch_norm_backward_sums    ->  batch_norm_backward_apply
//
// With ReLU, the backward passes recompute the sign of y from x and the residual, so only these and
// two numbers per channel are kept.
//
// Moments are exact per block of rows (two passes over a block that fits into cache) and merged
// pairwise in float64 (Chan, Golub, LeVeque 1979), so neither a large mean nor a long axis costs
// digits. Neither blocks nor results depend on the number of threads.
//
// Extents: C channels, R = numel / C rows. mean, var, rstd, weight, bias and sums are (C).
// weight and bias may be undefined, which means 1 and 0. residual has x's shape; undefined, it
// means 0. For 16-bit inputs, arithmetic and moments are float32.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

struct Moments {
  Tensor mean;  ///< (C)
  Tensor var;   ///< (C), divided by R
};

/// Mean and biased variance per channel.
///
/// Shapes:  x (B, C, ...) with at least two axes  ->  (C), (C)
/// DTypes:  every floating dtype; moments are float32, or float64 for float64
/// Throws:  ShapeError for fewer than two axes, or for no values per channel
Moments batch_norm_moments(const Tensor& x, Where where = Where::current());

/// rstd = 1 / sqrt(var + eps)
Tensor batch_norm_rstd(const Tensor& var, double eps, Where where = Where::current());

/// Inverse of batch_norm_rstd: var = max(1 / rstd^2 - eps, 0). Its error is rstd's rounding times
/// var + eps.
Tensor batch_norm_var(const Tensor& rstd, double eps, Where where = Where::current());

/// y = (x - mean) * rstd * weight + bias + residual, then max(y, 0) if relu.
///
/// Throws:  ShapeError unless mean, rstd, weight and bias are (C) and residual is like x;
///          DTypeError, DeviceError
Tensor batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& weight, const Tensor& bias, bool relu,
                        const Tensor& residual = {}, Where where = Where::current());

struct BatchNormSums {
  Tensor grad;       ///< (C): sum of g            = the gradient of bias
  Tensor grad_xhat;  ///< (C): sum of g * xhat     = the gradient of weight
};

/// What the backward pass needs from the forward pass. Below, g is grad_output, zeroed where ReLU
/// was 0.
struct BatchNormSaved {
  Tensor x, weight, bias, mean, rstd;
  bool relu = false;
  Tensor residual{};
};

BatchNormSums batch_norm_backward_sums(const Tensor& grad_output, const BatchNormSaved& saved,
                                       Where where = Where::current());

struct BatchNormGradients {
  Tensor grad_input;
  Tensor grad_residual;  ///< g: without ReLU grad_output itself; undefined if there is no residual
};

/// grad_input = weight * rstd * (g - sums.grad / rows - xhat * sums.grad_xhat / rows). The same
/// pass computes the residual's gradient.
///
/// `rows` counts the values per channel that entered the moments, over all devices. With rows = 0
/// the moments are constants, as in evaluation: grad_input = weight * rstd * g.
BatchNormGradients batch_norm_backward_apply(const Tensor& grad_output, const BatchNormSaved& saved,
                                             const BatchNormSums& sums, double rows,
                                             Where where = Where::current());

/// running = (1 - momentum) * running + momentum * moment, with the unbiased variance var * rows /
/// (rows - 1). Marks both running tensors as changed.
///
/// Throws:  ShapeError unless all are (C)
void batch_norm_update_running(const Moments& moments, double rows, double momentum,
                               const Tensor& running_mean, const Tensor& running_var,
                               Where where = Where::current());

namespace cuda {

// REQUIRES: tensors of x's shape are not empty and have equal strides: contiguous or channels_last.
//           Tensors of (C) have been checked. Results of (C) are contiguous and have the dtype of
//           the statistics.

void batch_norm_moments(const Tensor& x, const Moments& result, Where where);
void batch_norm_apply(const BatchNormSaved& saved, const Tensor& y, Where where);
// Without ReLU, backward passes get no residual; with a residual, they write both gradients.
void batch_norm_backward_sums(const Tensor& grad_output, const BatchNormSaved& saved,
                              const BatchNormSums& result, Where where);
void batch_norm_backward_apply(const Tensor& grad_output, const BatchNormSaved& saved,
                               const BatchNormSums& sums, double rows,
                               const BatchNormGradients& result, Where where);

/// rstd = 1 / sqrt(var + eps); both of any floating dtype, rstd contiguous
void batch_norm_rstd(const Tensor& var, double eps, const Tensor& rstd, Where where);
/// var = max(1 / rstd^2 - eps, 0); likewise
void batch_norm_var(const Tensor& rstd, double eps, const Tensor& var, Where where);

/// running += momentum * (moment * correction - running)
void batch_norm_update_running(const Tensor& moment, double correction, double momentum,
                               const Tensor& running, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
