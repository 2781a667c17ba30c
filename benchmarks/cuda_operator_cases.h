// The operators that are measured on a GPU; a name carries the operands' dtype and extents:
//
//   BM_<Op>/cuda/<dtype>[/axis:<>]/<extents>      BM_Add/cuda/bfloat16/B:32768/C:1024
//
// Copy Add Relu Sum Softmax LayerNorm CrossEntropy BatchNormRelu Adam Matmul (square) Conv2d (3x3,
// channels_last, forward). Tensors that a pass reads are larger than the second-level cache of any
// GPU so far (128 MiB). On simulated GPUs all sizes are tiny: the operators run, but nothing is
// measured.

#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ringrad::bench {

/// What one call moves and computes.
struct CudaWork {
  std::function<void()> call;  ///< queues the work on the current stream of cuda:0
  double bytes = 0;
  double flops = 0;
};

struct CudaOperatorCase {
  std::string name;
  std::function<CudaWork()> make;  ///< makes the operands
};

std::vector<CudaOperatorCase> cuda_operator_cases();

}  // namespace ringrad::bench
