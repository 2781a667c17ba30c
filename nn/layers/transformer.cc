#include "ringrad/nn/layers/transformer.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/nn/layers/row_norm.h"

namespace ringrad::nn {
namespace {

TransformerBlockOptions checked(TransformerBlockOptions options, std::int64_t width, Where where) {
  RINGRAD_CHECK(options.hidden >= 0, ValueError, where,
                "TransformerBlock: hidden must not be negative; got ", options.hidden);
  if (options.hidden == 0) options.hidden = 4 * width;
  return options;
}

}  // namespace

Module& TransformerBlock::add_norm(const char* name, std::int64_t width, Where where) {
  if (options_.rms_norm) return child(name, RMSNorm(width), where);
  return child(name, LayerNorm(width), where);
}

TransformerBlock::TransformerBlock(std::int64_t width, std::int64_t heads,
                                   const TransformerBlockOptions& options, Where where)
    : options_(checked(options, width, where)),
      norm1_(add_norm("norm1", width, where)),
      self_attn_(child("self_attn",
                       MultiheadAttention(width, heads,
                                          {.key_value_heads = options.key_value_heads,
                                           .bias = options.bias,
                                           .causal = options.causal,
                                           .dropout = options.dropout,
                                           .rotary = options.rotary,
                                           .rotary_base = options.rotary_base},
                                          where),
                       where)),
      norm2_(add_norm("norm2", width, where)),
      linear1_(child("linear1",
                     Linear(width, (options.swiglu ? 2 : 1) * options_.hidden, options.bias, where),
                     where)),
      linear2_(child("linear2", Linear(options_.hidden, width, options.bias, where), where)),
      dropout_(child("dropout", Dropout(options.dropout, where), where)) {}

// The end of both branches, after that of attention.
Tensor TransformerBlock::joined(const Tensor& x, const Tensor& attention, Where at) {
  const Tensor y = add(x, dropout_(attention, at), at);
  Tensor inner = linear1_(norm2_(y, at), at);
  if (options_.swiglu) {
    const Tensor gate = slice(inner, 2, 0, options_.hidden, 1, at);
    inner = mul(silu(gate, at), slice(inner, 2, options_.hidden, 2 * options_.hidden, 1, at), at);
  } else {
    inner = gelu(inner, at);
  }
  return add(y, dropout_(linear2_(inner, at), at), at);
}

Tensor TransformerBlock::forward(const Tensor& x, Where at) {
  return joined(x, self_attn_(norm1_(x, at), at), at);
}

Tensor TransformerBlock::next(const Tensor& x, KeyValueCache& cache, Where at) {
  return joined(x, self_attn_.next(norm1_(x, at), cache, at), at);
}

}  // namespace ringrad::nn
