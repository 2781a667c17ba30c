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
/// Shapes:  logits (B, C), targets (B)  or  logits (C), targets ()  or, for images, logits
///          (B, C, ...), targets (B, ...)  ->  () or, without a reduction, like targets
/// DTypes:  logits of every floating dtype; targets int32 or int64
/// Saves:   logits, targets, two numbers per example
/// Throws:  ShapeError, DTypeError, DeviceError; IndexError for a target that is not a class;
///          ValueError unless 0 <= label_smoothing <= 1; AutogradError if options.weight requires a
///          gradient: there is none
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {}, Where where = Where::current());

struct NLLLossOptions {
  Tensor weight = {};                ///< (C), weight of each class; undefined means 1
  std::int64_t ignore_index = -100;  ///< targets of this value are ignored
  Reduction reduction = Reduction::mean;
};

/// The negative log-likelihood of the correct class, given the logarithms of probabilities:
/// cross_entropy without its log_softmax.
///
///   loss_b = -w_t x_bt;    the mean is sum_b loss_b / sum_b w_t, NaN if all targets are ignored
///
/// Shapes, DTypes, Throws: as cross_entropy
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets,
                const NLLLossOptions& options = {}, Where where = Where::current());

// -- For operators --------------------------------------------------------------------------------

namespace detail {

/// The gradient of cross_entropy in `logits` (B, C), composed of recorded operators. `divisor` is
/// that of a mean, and 1 for other reductions.
Tensor cross_entropy_gradient(const Tensor& grad_output, const Tensor& logits,
                              const Tensor& targets, const Tensor& divisor,
                              const CrossEntropyOptions& options);

}  // namespace detail
}  // namespace ringrad
