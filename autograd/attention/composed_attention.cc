#include "ringrad/autograd/attention/composed_attention.h"

#include <limits>

#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"

namespace ringrad {
namespace {

using kernels::AttentionDropout;
using kernels::AttentionProblem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 16-bit dtypes compute in float32.
Tensor wide(const Tensor& x, Where where) { return to(x, math_dtype(x.dtype()), where); }

// (B, Hkv, S, D) -> (B, H, S, D): each head once per head of queries that uses it
Tensor per_query_head(const Tensor& x, const AttentionProblem& a, Where where) {
  if (a.group() == 1) return x;
  const Shape& shape = x.shape();
  const Shape repeated{a.B, a.Hkv, a.group(), shape[2], shape[3]};
  return reshape(expand(unsqueeze(x, 2, where), repeated, where), {a.B, a.H, shape[2], shape[3]},
                 where);
}

// The sum over the heads of queries that share a head.
Tensor per_key_head(const Tensor& x, const AttentionProblem& a, Where where) {
  if (a.group() == 1) return x;
  const Shape& shape = x.shape();
  return sum(reshape(x, {a.B, a.Hkv, a.group(), shape[2], shape[3]}, where), {2}, false, where);
}

// (T, S), true where causality and window let a query attend; undefined if they let all.
Tensor allowed(const AttentionProblem& a, Where where) {
  Tensor result;
  const Tensor distance =  // from each key to the position of each query
      sub(unsqueeze(arange(a.shift, a.shift + a.T, 1, where), 1, where), arange(a.S, where), where);
  const auto restrict_to = [&](const Tensor& condition) {
    result = result.defined() ? logical_and(result, condition, where) : condition;
  };
  if (a.causal) restrict_to(ge(distance, 0, where));
  if (a.window > 0) restrict_to(lt(abs(distance, where), a.window, where));
  return result;
}

// The probabilities (B, H, T, S), before dropout; a row without keys is 0.
Tensor probabilities(const Tensor& q, const Tensor& k, const Tensor& mask,
                     const AttentionProblem& a, Where where) {
  const DefaultDeviceGuard on_device(q.device());
  Tensor scores = mul(matmul(q, transpose(k, -2, -1, where), where), a.scale, where);
  if (mask.defined() && mask.dtype() == DType::bool_)
    scores = ringrad::where(mask, scores, -kInfinity, where);
  else if (mask.defined())
    scores = add(scores, to(mask, q.dtype(), where), where);
  if (const Tensor chosen = allowed(a, where); chosen.defined())
    scores = ringrad::where(chosen, scores, -kInfinity, where);
  if (scores.numel() == 0) return scores;

  Tensor without_key;  // (B, H, T, 1)
  {
    const NoGradGuard not_recorded;
    without_key = eq(max(scores, {-1}, true, where), -kInfinity, where);
  }
  const Tensor p = softmax(ringrad::where(without_key, 0., scores, where), -1, where);
  return ringrad::where(without_key, 0., p, where);
}

// The factors of the probabilities, 0 or 1 / (1 - p); undefined without dropout.
Tensor dropout_factors(const AttentionProblem& a, const AttentionDropout& dropout,
                       const Tensor& like, Where where) {
  if (dropout.p == 0) return {};
  RINGRAD_CHECK(!dropout.counter.place, CudaError, where,
                "scaled_dot_product_attention: dropout in captured work needs the fused gradient; "
                "got create_graph, or a mask that requires a gradient");
  const NoGradGuard not_recorded;
  const DefaultDeviceGuard on_device(like.device());
  Generator replay(dropout.seed);
  replay.set_offset(dropout.counter.value);
  return ringrad::dropout(ones({a.B, a.H, a.T, a.S}, {.dtype = like.dtype()}, where), dropout.p,
                          true, replay, where);
}

Tensor times(const Tensor& x, const Tensor& factors, Where where) {
  return factors.defined() ? mul(x, factors, where) : x;
}

}  // namespace

Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options, const AttentionProblem& a,
                          const AttentionDropout& dropout, Where where) {
  const Tensor keys = per_query_head(wide(k, where), a, where);
  const Tensor values = per_query_head(wide(v, where), a, where);
  const Tensor p = probabilities(wide(q, where), keys, options.mask, a, where);
  const Tensor kept = times(p, dropout_factors(a, dropout, p, where), where);
  return to(matmul(kept, values, where), q.dtype(), where);
}

kernels::AttentionGradients composed_attention_gradients(
    const Tensor& grad_output, const Tensor& q_or_half, const Tensor& k, const Tensor& v,
    const AttentionOptions& options, const AttentionProblem& a, const AttentionDropout& dropout,
    Where where) {
  const Tensor q = wide(q_or_half, where), grad = wide(grad_output, where);
  const Tensor keys = per_query_head(wide(k, where), a, where);
  const Tensor values = per_query_head(wide(v, where), a, where);
  const Tensor p = probabilities(q, keys, options.mask, a, where);
  const Tensor factors = dropout_factors(a, dropout, p, where);
  const auto transposed = [&](const Tensor& x) { return transpose(x, -2, -1, where); };

  const Tensor grad_values = matmul(transposed(times(p, factors, where)), grad, where);
  const Tensor grad_p = times(matmul(grad, transposed(values), where), factors, where);
  const Tensor delta = sum(grad_p * p, {-1}, true, where);
  const Tensor grad_scores = mul(p * (grad_p - delta), a.scale, where);
  const Tensor grad_keys = matmul(transposed(grad_scores), q, where);
  return {to(matmul(grad_scores, keys, where), q_or_half.dtype(), where),
          to(per_key_head(grad_keys, a, where), k.dtype(), where),
          to(per_key_head(grad_values, a, where), v.dtype(), where)};
}

}  // namespace ringrad
