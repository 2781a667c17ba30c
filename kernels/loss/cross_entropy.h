// Cross entropy between scores and the correct class, from scores to one number in one pass.
//
// With p = softmax(x) along the classes, example b of class t = targets[b], and class weights w
// (1 if undefined):
//
//     loss_b = (1 - s) w_t (-log p_t)  +  s / C  sum_c w_c (-log p_c)          s: label smoothing
//
// An ignored target makes loss_b 0. `mean` is sum_b loss_b / sum_b w_t over the examples that are
// not ignored (NaN if all are), as in PyTorch.
//
// The forward pass keeps two numbers per example, m_b = max_c x and l_b = log sum_c exp(x - m_b),
// instead of all probabilities. The backward pass recomputes p = exp(x - m_b - l_b) while it
// streams over the scores, so a large vocabulary needs no second (B, C) tensor.
//
// Extents: B batch, C classes.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loss/loss_reduction.h"

namespace ringrad {

struct CrossEntropyOptions {
  Tensor weight = {};                ///< (C), weight of each class; undefined means 1
  std::int64_t ignore_index = -100;  ///< targets of this value are ignored
  double label_smoothing = 0;        ///< share of each target spread over all classes, in [0, 1]
  Reduction reduction = Reduction::mean;
};

namespace kernels {

/// What the backward pass needs from the forward pass, in the dtype of the arithmetic.
struct CrossEntropyStatistics {
  Tensor maxima, log_sums;  ///< m and l: the shape of targets
  Tensor divisor;           ///< (): the divisor of a mean's gradient; 1 for other reductions
};

struct CrossEntropyResult {
  Tensor loss;  ///< (), or the shape of targets without a reduction
  CrossEntropyStatistics statistics;
};

/// Shapes:  logits (B, C), targets (B)  or  logits (C), targets ();  weight (C)
/// DTypes:  logits of every floating dtype, weight of the same; targets int32 or int64
/// Throws:  ShapeError, DTypeError, DeviceError; IndexError for a target outside [0, C) other
///          than ignore_index; ValueError unless 0 <= label_smoothing <= 1
/// Paper:   label smoothing: Szegedy et al. 2015, arXiv:1512.00567, section 7
CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options,
                                 Where where = Where::current());

/// With g_b the gradient of loss_b, and W_b = (1 - s) w_t + s mean(w):
///
///   grad_logits_c = g_b (W_b p_c - (1 - s) w_t [c = t] - s / C w_c)
///
/// Shapes:  grad_output like the loss  ->  like logits
Tensor cross_entropy_backward(const Tensor& grad_output, const Tensor& logits,
                              const Tensor& targets, const CrossEntropyStatistics& statistics,
                              const CrossEntropyOptions& options, Where where = Where::current());

/// The parts of the gradient above besides p, for gradients that are recorded:
/// grad_logits = g (W p - q).
struct CrossEntropyTargets {
  Tensor total;         ///< W, (B, 1) or (1)
  Tensor distribution;  ///< q_bc = (1 - s) w_t [c = t] + s / C w_c, like logits
};
CrossEntropyTargets cross_entropy_targets(const Tensor& logits, const Tensor& targets,
                                          const CrossEntropyOptions& options,
                                          Where where = Where::current());

namespace cpu {

// REQUIRES: logits is contiguous (B, C) with C > 0; targets is contiguous, int64 and valid;
//           options.weight, if defined, is contiguous and has the dtype of the arithmetic
void cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                   const CrossEntropyResult& result);
void cross_entropy_backward(const Tensor& grad_output, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyStatistics& statistics,
                            const CrossEntropyOptions& options, const Tensor& grad_logits);
void cross_entropy_targets(const Tensor& targets, const CrossEntropyOptions& options,
                           const CrossEntropyTargets& result);

}  // namespace cpu

namespace cuda {

// REQUIRES: as in namespace cpu, except that targets may be out of range: such targets count as
//           ignored, and check_indices has noted them.
void cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                   const CrossEntropyResult& result, Where where);
void cross_entropy_backward(const Tensor& grad_output, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyStatistics& statistics,
                            const CrossEntropyOptions& options, const Tensor& grad_logits,
                            Where where);
void cross_entropy_targets(const Tensor& targets, const CrossEntropyOptions& options,
                           const CrossEntropyTargets& result, Where where);

}  // namespace cuda
}  // namespace kernels
}  // namespace ringrad
