// The arguments of the kernels, checked and with results allocated. Private to kernels/attention.

#pragma once

#include "ringrad/kernels/attention/attention.h"

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

namespace cpu {

void attention(const AttentionForward& call, Where where);
/// True for so few queries that packing costs more than it saves.
inline bool goes_by_rows(const AttentionProblem& a) { return a.T <= 4; }
void attention_by_rows(const AttentionForward& call, Where where);
void attention_by_tiles(const AttentionForward& call, Where where);
void attention_backward(const AttentionBackward& call, Where where);

}  // namespace cpu
}  // namespace ringrad::kernels
