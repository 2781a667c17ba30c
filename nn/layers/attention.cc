#include "ringrad/nn/layers/attention.h"

#include <array>

#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/attention/rotary_embedding.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/nn/init.h"

namespace ringrad::nn {
namespace {

// Runs before members are made of these numbers.
std::int64_t checked_width(std::int64_t width, std::int64_t heads,
                           const MultiheadAttentionOptions& options, Where where) {
  RINGRAD_CHECK(width > 0 && heads > 0 && width % heads == 0, ValueError, where,
                "MultiheadAttention: heads must divide the width; got ", heads, " and ", width);
  RINGRAD_CHECK(options.key_value_heads >= 0 &&
                    (options.key_value_heads == 0 || heads % options.key_value_heads == 0),
                ValueError, where,
                "MultiheadAttention: key_value_heads must divide the heads; got ",
                options.key_value_heads, " and ", heads);
  RINGRAD_CHECK(options.dropout >= 0 && options.dropout < 1, ValueError, where,
                "MultiheadAttention: dropout must be in [0, 1); got ", options.dropout);
  RINGRAD_CHECK(!options.rotary || width / heads % 2 == 0, ValueError, where,
                "MultiheadAttention: rotary needs heads of even size; got ", width / heads);
  return width;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t width, std::int64_t heads,
                                       const MultiheadAttentionOptions& options, Where where)
    : width_(checked_width(width, heads, options, where)),
      heads_(heads),
      key_value_heads_(options.key_value_heads == 0 ? heads : options.key_value_heads),
      options_(options),
      out_proj_(child("out_proj", Linear(width, width, options.bias, where), where)) {
  const std::int64_t rows = (heads_ + 2 * key_value_heads_) * (width / heads);
  in_proj_weight_ = parameter("in_proj_weight", empty({rows, width}), where);
  xavier_uniform_(in_proj_weight_);
  if (!options.bias) return;
  in_proj_bias_ = parameter("in_proj_bias", zeros({rows}), where);
  const NoGradGuard guard;
  zero_(out_proj_.bias, where);
}

void MultiheadAttention::check_tokens(const Tensor& x, Where at) const {
  RINGRAD_CHECK(x.dims(at) == 3 && x.shape()[2] == width_, ShapeError, at,
                "MultiheadAttention: tokens must be (B, T, ", width_, "); got ", x.shape());
}

// (B, T, heads * D) as (B, heads, T, D).
Tensor MultiheadAttention::heads_of(const Tensor& projected, Where at) const {
  const Shape& shape = projected.shape();
  const std::int64_t size = width_ / heads_;
  return transpose(reshape(projected, {shape[0], shape[1], shape[2] / size, size}, at), 1, 2, at);
}

Tensor MultiheadAttention::turned(const Tensor& x, std::int64_t offset, Where at) const {
  if (!options_.rotary) return x;
  return rotary_embedding(x, {.offset = offset, .base = options_.rotary_base}, at);
}

Tensor MultiheadAttention::attended(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, bool causal, Where at) {
  const Tensor y = scaled_dot_product_attention(q, k, v,
                                                {.mask = mask,
                                                 .causal = causal,
                                                 .alignment = CausalAlignment::lower_right,
                                                 .dropout = is_training() ? options_.dropout : 0},
                                                default_generator(), at);
  return out_proj_(reshape(transpose(y, 1, 2, at), {q.shape()[0], q.shape()[2], width_}, at), at);
}

Tensor MultiheadAttention::attend(const Tensor& x, const Tensor& memory, const Tensor& mask,
                                  Where at) {
  check_not_moved_from(at);
  check_tokens(x, at);
  check_tokens(memory, at);
  const std::int64_t others = key_value_heads_ * (width_ / heads_);
  std::vector<Tensor> parts;  // queries, keys, values
  if (x.is(memory)) {
    const Tensor all = linear(x, in_proj_weight_, in_proj_bias_, false, at);
    parts = split_sizes(all, std::array{width_, others, others}, 2, at);
  } else {
    const auto rows = [&](const Tensor& of) {
      return of.defined() ? split_sizes(of, std::array{width_, 2 * others}, 0, at)
                          : std::vector<Tensor>(2);
    };
    const std::vector<Tensor> weights = rows(in_proj_weight_), biases = rows(in_proj_bias_);
    parts = split(linear(memory, weights[1], biases[1], false, at), others, 2, at);
    parts.insert(parts.begin(), linear(x, weights[0], biases[0], false, at));
  }
  return attended(turned(heads_of(parts[0], at), 0, at), turned(heads_of(parts[1], at), 0, at),
                  heads_of(parts[2], at), mask, options_.causal, at);
}

Tensor MultiheadAttention::forward(const Tensor& x, Where at) { return attend(x, x, {}, at); }

Tensor MultiheadAttention::next(const Tensor& x, KeyValueCache& cache, Where at) {
  check_not_moved_from(at);
  check_tokens(x, at);
  RINGRAD_CHECK(!grad_enabled(), AutogradError, at,
                "MultiheadAttention: next() must run under NoGradGuard; got recording on");
  const std::int64_t others = key_value_heads_ * (width_ / heads_), offset = cache.length();
  const std::vector<Tensor> parts =
      split_sizes(linear(x, in_proj_weight_, in_proj_bias_, false, at),
                  std::array{width_, others, others}, 2, at);
  const auto [keys, values] =
      cache.append(turned(heads_of(parts[1], at), offset, at), heads_of(parts[2], at), at);
  return attended(turned(heads_of(parts[0], at), offset, at), keys, values, {}, true, at);
}

std::string MultiheadAttention::describe() const {
  return concat("MultiheadAttention(", width_, ", ", heads_, " heads",
                key_value_heads_ == heads_ ? "" : concat(" in ", key_value_heads_, " groups"),
                options_.causal ? ", causal)" : ")");
}

}  // namespace ringrad::nn
