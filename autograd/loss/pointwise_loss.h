// Losses that compare tensors element by element; kernels/loss/pointwise_loss.h has the formulas.
//
// For all of them:
//
// Shapes:  x and targets equal  ->  () or, with Reduction::none, like x
// DTypes:  every floating dtype, the same for both
// Saves:   x, targets
// Throws:  ShapeError, DTypeError, DeviceError

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loss/loss_reduction.h"

namespace ringrad {

/// (x - t)^2
Tensor mse_loss(const Tensor& x, const Tensor& targets, Reduction reduction = Reduction::mean,
                Where where = Where::current());

/// |x - t|; the gradient is 0 where they are equal.
Tensor l1_loss(const Tensor& x, const Tensor& targets, Reduction reduction = Reduction::mean,
               Where where = Where::current());

/// The cross entropy between a probability t and sigmoid(x), in a form that does not overflow:
///
///   -(w t log sigmoid(x) + (1 - t) log(1 - sigmoid(x)))
///
/// positive_weight w is a constant that broadcasts to x and compensates for rare positives (default
/// 1).
///
/// Throws:  AutogradError if positive_weight requires a gradient: there is none
Tensor bce_with_logits(const Tensor& x, const Tensor& targets, const Tensor& positive_weight = {},
                       Reduction reduction = Reduction::mean, Where where = Where::current());

/// (x - t)^2 / 2 where |x - t| <= delta, else delta (|x - t| - delta / 2): outliers pull with a
/// bounded gradient.
///
/// Throws:  ValueError unless delta > 0
/// Paper:   Huber 1964, "Robust estimation of a location parameter"
Tensor huber_loss(const Tensor& x, const Tensor& targets, Reduction reduction = Reduction::mean,
                  double delta = 1, Where where = Where::current());

/// huber_loss / beta with delta = beta, so that the line has slope 1; l1_loss if beta is 0 in the
/// dtype of the arithmetic.
///
/// Throws:  ValueError for negative beta
Tensor smooth_l1_loss(const Tensor& x, const Tensor& targets, Reduction reduction = Reduction::mean,
                      double beta = 1, Where where = Where::current());

/// The Kullback-Leibler divergence of probabilities exp(x) from the true ones, element by element:
///
///   t (log t - x),    with log_target exp(t) (t - x)
///
/// The divergence of a batch of distributions is the sum over the classes: Reduction::sum divided
/// by the size of the batch, not Reduction::mean.
Tensor kl_div(const Tensor& x, const Tensor& targets, Reduction reduction = Reduction::mean,
              bool log_target = false, Where where = Where::current());

}  // namespace ringrad
