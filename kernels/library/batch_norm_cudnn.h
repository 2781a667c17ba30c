// Batch norm by cuDNN. Our own passes read an image twice; cuDNN may keep it on the chip. cuDNN
// multiplies ReLU's gradient by a bit per value, so where ReLU was 0 a NaN or infinity in
// grad_output becomes NaN; our own passes give 0 there. Private to kernels/.

#pragma once

#include "ringrad/kernels/library/cudnn_graph.h"
#include "ringrad/kernels/problem/batch_norm_problem.h"

namespace ringrad::kernels::cudnn {

/// The forward pass of training on the device's current stream. Returns false, having done nothing,
/// if cuDNN has no engine for it.
///
/// REQUIRES: missing() is empty
bool batch_norm(const BatchNormProblem& problem, Where where);
bool batch_norm_backward(const BatchNormProblem& problem, Where where);

/// Everything that determines the graph.
struct BatchNormKind {
  Extents extents;
  DType dtype = DType::float32;
  bool relu = false;
  bool residual = false;  ///< backward: whether its gradient is wanted
  double eps = 0;         ///< forward only
};

Graph batch_norm_graph(const BatchNormKind& kind);
Graph batch_norm_backward_graph(const BatchNormKind& kind);

}  // namespace ringrad::kernels::cudnn
