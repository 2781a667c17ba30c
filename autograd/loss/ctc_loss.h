// Connectionist temporal classification; kernels/loss/ctc_loss.h has the recursions.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loss/loss_reduction.h"

namespace ringrad {

struct CTCLossOptions {
  std::int64_t blank = 0;      ///< the class of frames that spell nothing
  bool zero_infinity = false;  ///< if there are too few frames for a target: 0 and no gradient
  Reduction reduction = Reduction::mean;
};

/// The negative logarithm of the probability that the frames spell the target.
///
///   loss_b = -log sum over paths of exp(sum over t < input_lengths[b] of x[t, b, path_t])
///   over all paths that spell targets[b, 0 : target_lengths[b]] once equal neighbours are merged
///   and blanks dropped; the mean is that of loss_b / target_lengths[b], as in PyTorch
///
/// The gradient is the derivative in x. PyTorch's gradient has exp(x) added, which the gradient of
/// log_softmax turns into 0. Computed on a CPU: a GPU's tensors are copied.
///
/// Shapes:  log_probabilities (T, B, C), targets (B, S), input_lengths (B), target_lengths (B)
///          ->  () or, without a reduction, (B)
/// DTypes:  log_probabilities of every floating dtype; others int32 or int64
/// Saves:   log_probabilities, and one number for each of them
/// Throws:  ShapeError, DTypeError, DeviceError; IndexError for a target that is not a class, or is
///          the blank; ValueError for a length outside [0, T] or [0, S]; AutogradError in a
///          backward pass through its gradient
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossOptions& options = {},
                Where where = Where::current());

}  // namespace ringrad
