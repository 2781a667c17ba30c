// Scaled dot product attention; kernels/attention/attention.h says how it is computed.
//
// Extents: B batch, H heads, Hkv heads of keys and values, T queries, S keys, D head size, Dv size
// of a value.

#pragma once

#include "ringrad/core/random/random.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/problem/attention_options.h"

namespace ringrad {

/// Each query's mean of the values, weighed by its likeness to their keys.
///
///   y_t = sum over s of p_ts * v_s,    p_t = softmax over s of (scale * q_t . k_s + mask_ts)
///
/// Head h uses head h * Hkv / H of k and v: grouped queries if Hkv < H, multi-query if Hkv = 1. A
/// query that may attend to no key gives zeros, and receives no gradient. A query whose masks all
/// equal one large finite number, such as the lowest float, gives the mean of the values. On a GPU
/// the gradients of such a query are wrong, since each probability counts as 1 or 0 there; use a
/// bool mask or -inf to forbid keys. The memory grows with T + S, not with T * S, unless the mask
/// requires a gradient or backward is itself recorded. The result lies in memory as (B, T, H, Dv)
/// if q does.
///
/// Shapes:  q (B, H, T, D), k (B, Hkv, S, D), v (B, Hkv, S, Dv)  ->  (B, H, T, Dv)
/// DTypes:  every floating dtype, the same for q, k, v; 16-bit ones compute in float32
/// Saves:   q, k, v, mask, y and two numbers per query
/// Throws:  ShapeError; DTypeError unless the mask is bool or floating; ValueError unless
///          0 <= dropout <= 1 and window >= 0; DeviceError
/// Paper:   Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245 (groups);
///          Beltagy, Peters, Cohan 2020, arXiv:2004.05150 (window)
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {},
                                    Generator& generator = default_generator(),
                                    Where where = Where::current());

}  // namespace ringrad
