// MultiheadAttention: each token reads from all others, in several ways at once.
//
//     x (B, T, C) --in_proj--> | q: H heads | k: Hkv heads | v: Hkv heads |    D = C / H each
//                                   |             |             |
//                              (rotary)       (rotary)          |
//                                   '--- scaled dot product attention --- out_proj --> (B, T, C)
//
// Generation keeps the keys and values of earlier tokens, so that a token costs one position's
// products and a pass over what was kept:
//
//     nn::KeyValueCache cache(1024);
//     Tensor y = attention.next(prompt, cache);        (B, T, C)
//     for (...) y = attention.next(token, cache);      (B, 1, C)
//
// Parameters are called and laid out as PyTorch's.

#pragma once

#include "ringrad/nn/layers/key_value_cache.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

struct MultiheadAttentionOptions {
  std::int64_t key_value_heads = 0;  ///< fewer than heads: groups of heads share one; 0 means heads
  bool bias = true;
  bool causal = false;  ///< a token reads from itself and those before
  double dropout = 0;   ///< in training, of the attention's weights
  bool rotary = false;  ///< queries and keys turn with their positions (RoPE)
  double rotary_base = 10000;
};

/// Parameters:  in_proj_weight ((H + 2 Hkv) D, C) from xavier_uniform_, in_proj_bias of zeros;
///              out_proj.weight (C, C), out_proj.bias of zeros
/// Throws:      ValueError unless heads divide the width, key_value_heads divide the heads,
///              0 <= dropout < 1, and D is even with rotary
/// Paper:       Vaswani et al. 2017, arXiv:1706.03762
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(std::int64_t width, std::int64_t heads,
                     const MultiheadAttentionOptions& options = {}, Where where = Where::current());

  /// Self-attention.
  ///
  /// Shapes:  (B, T, C)  ->  (B, T, C)
  Tensor forward(const Tensor& x, Where at = Where::current()) override;

  /// The tokens of x read from those of memory. A mask is as in AttentionOptions
  /// (kernels/problem/attention_options.h).
  ///
  /// Shapes:  x (B, T, C), memory (B, S, C)  ->  (B, T, C)
  Tensor attend(const Tensor& x, const Tensor& memory, const Tensor& mask = {},
                Where at = Where::current());

  /// Causal self-attention of tokens that follow those in the cache. Adds them to the cache.
  ///
  /// Shapes:  (B, T, C)  ->  (B, T, C)
  /// Throws:  ShapeError if the cache becomes too long; AutogradError if operations are recorded,
  ///          since the cache is changed in place
  Tensor next(const Tensor& x, KeyValueCache& cache, Where at = Where::current());

  std::string describe() const override;

 private:
  Tensor heads_of(const Tensor& projected, Where at) const;
  Tensor turned(const Tensor& x, std::int64_t offset, Where at) const;
  Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  bool causal, Where at);
  void check_tokens(const Tensor& x, Where at) const;

  std::int64_t width_, heads_, key_value_heads_;
  MultiheadAttentionOptions options_;
  Tensor in_proj_weight_, in_proj_bias_;
  Linear& out_proj_;
};

}  // namespace ringrad::nn
