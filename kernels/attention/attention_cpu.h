// Attention's kernels on CPUs. Private to kernels/attention.

#pragma once

#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels {
namespace cpu {

void attention(const AttentionForward& call, Where where);
/// True for so few queries that packing costs more than it saves.
inline bool goes_by_rows(const AttentionProblem& a) { return a.T <= 4; }
void attention_by_rows(const AttentionForward& call, Where where);
void attention_by_tiles(const AttentionForward& call, Where where);
void attention_backward(const AttentionBackward& call, Where where);

}  // namespace cpu
}  // namespace ringrad::kernels
