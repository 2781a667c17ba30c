// TransformerBlock: attention, then a network that sees each token by itself; both add to the
// stream.
//
//     x ----.-- norm1 -- self_attn -- dropout -- + ----.-- norm2 -- MLP -- dropout -- + --> y
//           '------------------------------------'     '------------------------------'
//
//     MLP    linear2(gelu(linear1(x)))        or, with swiglu,
//            linear2(silu(g) * u)             where g and u are the halves of linear1(x)
//
// The norms come first, so that the stream from x to y is a plain sum. Parameters are called as in
// PyTorch's TransformerEncoderLayer.

#pragma once

#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/attention.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

struct TransformerBlockOptions {
  std::int64_t hidden = 0;           ///< units of the MLP; 0 means 4 C
  std::int64_t key_value_heads = 0;  ///< this and the next four: as in MultiheadAttentionOptions
  bool bias = true;                  ///< also of the MLP's layers
  bool causal = false;
  bool rotary = false;
  double rotary_base = 10000;
  double dropout = 0;     ///< in training, of attention's weights and of both branches
  bool swiglu = false;    ///< instead of gelu
  bool rms_norm = false;  ///< instead of layer norm
};

/// Parameters:  norm1, self_attn, norm2; linear1 (hidden, C), or (2 hidden, C) with swiglu; linear2
///              (C, hidden)
/// Shapes:      (B, T, C)  ->  (B, T, C)
/// Throws:      as MultiheadAttention; ValueError unless hidden >= 0
/// Paper:       Xiong et al. 2020, arXiv:2002.04745 (norms first); Shazeer 2020, arXiv:2002.05202
///              (swiglu)
class TransformerBlock : public Module {
 public:
  TransformerBlock(std::int64_t width, std::int64_t heads,
                   const TransformerBlockOptions& options = {}, Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;

  /// The same for tokens that follow those in the cache, causally: see MultiheadAttention::next.
  Tensor next(const Tensor& x, KeyValueCache& cache, Where at = Where::current());

 private:
  Module& add_norm(const char* name, std::int64_t width, Where where);
  Tensor joined(const Tensor& x, const Tensor& attention, Where at);

  TransformerBlockOptions options_;
  Module& norm1_;
  MultiheadAttention& self_attn_;
  Module& norm2_;
  Linear &linear1_, &linear2_;
  Dropout& dropout_;
};

}  // namespace ringrad::nn
