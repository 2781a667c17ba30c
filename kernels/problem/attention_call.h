// The arguments of attention's kernels, checked and with results allocated. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/problem/attention_dropout.h"
#include "ringrad/kernels/problem/attention_problem.h"

namespace ringrad::kernels {

struct AttentionForward {
  AttentionProblem a;
  Tensor q, k, v;
  Tensor mask;  ///< undefined, or (B, H, T, S) with strides: bool, or of the arithmetic's dtype
  AttentionDropout dropout;
  Tensor output, statistics;
};

struct AttentionBackward {
  AttentionProblem a;
  Tensor grad_output, q, k, v;
  Tensor mask;
  AttentionDropout dropout;
  Tensor output, statistics;
  Tensor grad_q, grad_k, grad_v;
};

}  // namespace ringrad::kernels
