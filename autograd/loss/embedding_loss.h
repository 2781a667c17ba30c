// Losses that compare embeddings, rows of features, by angle or by distance.
//
// Extents: B pairs or triplets, D features. Without B, a single row.
//
// DTypes:  every floating dtype, the same for all rows
// Throws:  ShapeError, DTypeError, DeviceError

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loss/loss_reduction.h"

namespace ringrad {

/// Pulls pairs of target 1 to the same direction, and pushes pairs of target -1 apart until the
/// cosine of their angle is at most the margin.
///
///   1 - cos(a, b) for target 1,    max(0, cos(a, b) - margin) for target -1,    0 for others
///   cos(a, b) = a . b / sqrt((|a|^2 + 1e-12) (|b|^2 + 1e-12))
///
/// Shapes:  a, b (B, D), targets (B)  or  a, b (D), targets ()  ->  () or, with Reduction::none,
///          like targets
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& targets,
                             double margin = 0, Reduction reduction = Reduction::mean,
                             Where where = Where::current());

struct TripletMarginOptions {
  double margin = 1;
  double p = 2;       ///< of the distance |a - b + eps|_p
  double eps = 1e-6;  ///< keeps the distance of equal rows differentiable
  bool swap = false;  ///< takes the negative's distance to the positive, if that is smaller
  Reduction reduction = Reduction::mean;
};

/// Pulls each anchor nearer to the positive than to the negative, by the margin.
///
///   max(0, |anchor - positive| - |anchor - negative| + margin)
///
/// Shapes:  anchor, positive, negative (..., D)  ->  () or, with Reduction::none, (...)
/// Throws:  also ValueError unless p > 0
/// Paper:   Balntas, Riba, Ponsa, Mikolajczyk 2016, "Learning local feature descriptors with
///          triplets and shallow convolutional neural networks"
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {},
                           Where where = Where::current());

}  // namespace ringrad
