// Cross entropy between scores and classes; kernels/loss/cross_entropy.h has the formulas.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loss/cross_entropy.h"

namespace ringrad {

/// The negative logarithm of the softmax of the correct class, averaged over a batch.
///
///   cross_entropy(logits, targets)
///   cross_entropy(logits, targets, {.label_smoothing = 0.1, .reduction = Reduction::sum})
///
/// Shapes:  logits (B, C), targets (B)  or  logits (C), targets ()
///          ->  () or, without a reduction, like targets
/// DTypes:  logits of every floating dtype; targets int32 or int64
/// Saves:   logits, targets, two numbers per example
/// Throws:  ShapeError, DTypeError, DeviceError; IndexError for a target that is not a class;
///          ValueError unless 0 <= label_smoothing <= 1
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {}, Where where = Where::current());

}  // namespace ringrad
