// Batch norm by cuDNN, which may keep an image on the chip that our own passes read twice. ReLU's gradient is a
// product with a bit per value: a NaN or infinity in grad_output passes a 0, which our own passes stop. Private
// to kernels/.

#pragma once

#include "kernels/batch_norm_problem.h"
#include "kernels/cudnn_graph.h"

namespace ringrad::kernels::cudnn {

/// The forward pass of training on the device's current stream. False, with nothing done, if cuDNN has no
/// engine for it.
///
/// REQUIRES: missing() is empty
bool batch_norm(const BatchNormProblem& problem, Where where);
bool batch_norm_backward(const BatchNormProblem& problem, Where where);

/// What decides how a graph looks.
struct BatchNormKind {
  Extents extents;
  DType dtype = DType::float32;
  bool relu = false;
  bool residual = false;  ///< backward: whether its gradient is asked for
  double eps = 0;         ///< forward only
};

Graph batch_norm_graph(const BatchNormKind& kind);
Graph batch_norm_backward_graph(const BatchNormKind& kind);

}  // namespace ringrad::kernels::cudnn
