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
Tensor bce_with_logits(const Tensor& x, const Tensor& targets, const Tensor& positive_weight = {},
                       Reduction reduction = Reduction::mean, Where where = Where::current());

}  // namespace ringrad
