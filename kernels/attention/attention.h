// Scaled dot product attention without a matrix of scores.
//
//     y_t = sum over s of p_ts * v_s,    p_ts = exp(x_ts - lse_t),    lse_t = log sum_s exp(x_ts)
//     x_ts = scale * q_t . k_s + mask_ts
//
//                 keys, a tile at a time                     each row keeps three things:
//              +------+------+------+------+                   m    largest score so far
//     queries  | tile | tile | skip | skip |  causal           sum  sum of exp(x - m) so far
//              +------+------+------+------+                   y    sum of exp(x - m) * v so far
//
// When a tile raises m, sum and y are multiplied by exp(m - new m). So a tile of scores is used
// while it is in the cache and then forgotten: memory grows with T + S. The gradient recomputes the
// tiles from q, k and lse_t:
//
//     delta_t = grad_t . y_t                                 grad_v_s = sum over t of p_ts * grad_t
//     g_ts = p_ts * (grad_t . v_s - delta_t) * scale
//     grad_q_t = sum over s of g_ts * k_s                    grad_k_s = sum over t of g_ts * q_t
//
// Paper: Milakov, Gimelshein 2018, arXiv:1805.02867 (the running maximum); Rabe, Staats 2021,
// arXiv:2112.05682 (linear memory); Dao, Fu, Ermon, Rudra, Re 2022, arXiv:2205.14135 (tiles, and
// the gradient from lse_t); Dao 2023, arXiv:2307.08691 (one division per row, at the end)

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/problem/attention_dropout.h"
#include "ringrad/kernels/problem/attention_problem.h"

namespace ringrad::kernels {

/// Checks the arguments of scaled_dot_product_attention (autograd/attention/attention.h).
AttentionProblem attention_problem(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionOptions& options, Where where = Where::current());

struct AttentionResult {
  Tensor output;  ///< (B, H, T, Dv)
  /// What backward needs of each row, in float64 for float64, else in float32.
  ///   GPUs (B, H, T):     lse; inf if the row has no key
  ///   CPUs (B, H, T, 2):  the largest m of x / ln 2, and 1 / sum of 2^(x / ln 2 - m); 0 and 0 if
  ///                       the row has no key. One number, lse, would lose log(sum) where m is
  ///                       large.
  Tensor statistics;
};

/// Shapes, DTypes, Throws: as scaled_dot_product_attention
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options, const AttentionDropout& dropout = {},
                          Where where = Where::current());

struct AttentionGradients {
  Tensor q, k, v;
};

/// REQUIRES: result is what attention() returned for these arguments
/// Throws:   ShapeError, DTypeError unless grad_output and result.output agree
AttentionGradients attention_backward(const Tensor& grad_output, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const AttentionResult& result,
                                      const AttentionOptions& options,
                                      const AttentionDropout& dropout = {},
                                      Where where = Where::current());

}  // namespace ringrad::kernels
