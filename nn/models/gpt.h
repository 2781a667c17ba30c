// GPT: a transformer that predicts the next token, with GPT-2's architecture and names.
//
//     tokens (B, T) --> wte + wpe --> h.0 --> ... --> h.L-1 --> ln_f --> lm_head --> (B, T, V)
//
//     h.i    x = x + attn(ln_1(x))       attn: causal self-attention of H heads
//            x = x + mlp(ln_2(x))        mlp:  c_proj(gelu(c_fc(x))), four times as wide inside
//
// lm_head has the weight of wte. The layers form one Sequential, so that a pipeline can be cut
// between any two of them. GPTLinears puts other layers in place of nn::Linear, such as those that
// split their matrices over ranks (parallel/train/tensor/tensor_parallel.h).
//
// Extents: B batch, T sequence, C width, H heads, D = C / H, V vocabulary, L layers.
//
// Paper: Radford, Wu, Child, Luan, Amodei, Sutskever 2019, "Language Models are Unsupervised
//        Multitask Learners"

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ringrad/nn/layers/key_value_cache.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

struct GPTOptions {
  std::int64_t vocabulary = 256;
  std::int64_t context = 256;  ///< the longest sequence
  int layers = 6;
  std::int64_t heads = 6;
  std::int64_t width = 384;
  double dropout = 0;  ///< after the embeddings and at the end of each branch
};

/// How a block makes its linear layers, each from its numbers of input and output features.
struct GPTLinears {
  using Make = std::function<std::shared_ptr<Module>(std::int64_t in, std::int64_t out)>;

  /// Makes c_attn and c_fc, where each rank has the outputs of 1 / parts of the heads or units.
  Make split_outputs;
  /// Makes c_proj, which takes those outputs as its inputs; its own output is whole on all ranks.
  Make split_inputs;
  int parts = 1;
};

/// The model. Weights are drawn from N(0, 0.02^2), those of c_proj from N(0, 0.02^2 / (2 L));
/// biases are 0. The rows of c_attn are ordered by head: query, key and value of head 0, then of
/// head 1. If ranks have parts of the linear layers, load initial values (load_whole_state_dict):
/// parts that are drawn would differ from those of a whole model.
///
/// Parameters:  wte.weight (V, C), wpe.weight (T, C), h.i.ln_1, h.i.attn.c_attn, h.i.attn.c_proj,
///              h.i.ln_2, h.i.mlp.c_fc, h.i.mlp.c_proj, ln_f, lm_head.weight (that of wte)
/// Shapes:      tokens (B, T) of int64, T <= context  ->  (B, T, V)
/// Throws:      ValueError unless counts are positive, heads divide width, and parts divide heads.
///              In forward: ShapeError for a sequence longer than context
Sequential gpt(const GPTOptions& options = {}, Where where = Where::current());
/// The same, with other linear layers.
Sequential gpt(const GPTOptions& options, const GPTLinears& linears,
               Where where = Where::current());

/// The state dict that a file of GPT-2's weights stands for: gpt()'s names, without a prefix
/// "transformer." and without the masks that some files hold; matrices of linear layers transposed
/// to (out, in); rows of c_attn ordered by head. Use net.load_state_dict(from_gpt2(file, heads)).
///
/// Throws:  ValueError unless heads divide the width; ShapeError for a matrix that is not one
StateDict from_gpt2(const StateDict& file, std::int64_t heads, Where where = Where::current());
/// The reverse: what GPT-2's other implementations load.
StateDict to_gpt2(const StateDict& state, std::int64_t heads, Where where = Where::current());

/// Continues sequences, a token at a time. Keeps keys and values of all layers, so that a token
/// costs a pass over one position. Between calls the model is free to train or to serve other
/// generators; keys and values that were kept before training remain those of the earlier weights.
///
///     nn::GPTGenerator generator(net);
///     Tensor logits = generator.next(prompt);                        (B, T) -> (B, V)
///     for (...) logits = generator.next(draw(logits));               (B, 1) -> (B, V)
///
/// REQUIRES: the model is gpt()'s, and outlives the generator
class GPTGenerator {
 public:
  explicit GPTGenerator(Sequential& model, Where where = Where::current());
  GPTGenerator(const GPTGenerator&) = delete;
  GPTGenerator& operator=(const GPTGenerator&) = delete;

  /// The logits of the token that follows these, given all earlier ones, in evaluation mode.
  /// Nothing is recorded. A call that throws adds no tokens.
  ///
  /// Throws:  ShapeError if the sequence becomes longer than the model's context, or for another
  ///          number of sequences than in the first call
  Tensor next(const Tensor& tokens, Where where = Where::current());

 private:
  Sequential& model_;
  std::vector<KeyValueCache> caches_;  // one per layer
  std::int64_t length_ = 0;            // of the sequences so far
};

}  // namespace ringrad::nn
