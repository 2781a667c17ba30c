#include "ringrad/nn/models/gpt.h"

#include <cmath>
#include <string>
#include <utility>

#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/embedding.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/row_norm.h"

namespace ringrad::nn {
namespace {

constexpr double kDeviation = 0.02;

// --- The layers ---

/// x + weight[first], x + weight[first + 1], ... along the sequence.
class PositionEmbedding : public Module {
 public:
  PositionEmbedding(std::int64_t context, std::int64_t width)
      : weight(parameter("weight", empty({context, width}))) {}

  Tensor forward(const Tensor& x, Where at) override {  // (B, T, C)
    const std::int64_t end = first_ + x.size(1);
    RINGRAD_CHECK(end <= weight.size(0), ShapeError, at, "GPT: a sequence has at most ",
                  weight.size(0), " tokens, its context; got ", end);
    return add(x, slice(weight, 0, first_, end, 1, at), at);
  }
  std::string describe() const override {
    return concat("PositionEmbedding(", weight.size(0), ", ", weight.size(1), ')');
  }

  /// The position at which the sequences of the next calls begin.
  void start_at(std::int64_t first) { first_ = first; }

  const Tensor weight;

 private:
  std::int64_t first_ = 0;
};

/// Causal self-attention; its linear layers may be this rank's part of the heads.
class GPTAttention : public Module {
 public:
  GPTAttention(const GPTOptions& options, const GPTLinears& linears)
      : head_size_(options.width / options.heads),
        context_(options.context),
        c_attn_(add_child("c_attn", linears.split_outputs(options.width, 3 * options.width))),
        c_proj_(add_child("c_proj", linears.split_inputs(options.width, options.width))) {}

  Tensor forward(const Tensor& x, Where at) override {  // (B, T, C)
    const std::int64_t B = x.size(0), T = x.size(1);
    const Tensor qkv = c_attn_(x, at);
    const std::int64_t H = qkv.size(2) / (3 * head_size_);
    std::vector<Tensor> parts = split(reshape(qkv, {B, T, H, 3, head_size_}, at), 1, 3, at);
    for (Tensor& part : parts)  // (B, H, T, D)
      part = transpose(squeeze(part, {3}, at), 1, 2, at);
    const Tensor q = parts[0];
    Tensor k = parts[1], v = parts[2];
    if (cache_) {
      const auto all = cache_->append(k, v, at);
      k = all.keys;
      v = all.values;
    }
    const Tensor y = scaled_dot_product_attention(
        q, k, v, {.causal = true, .alignment = CausalAlignment::lower_right}, default_generator(),
        at);
    return c_proj_(reshape(transpose(y, 1, 2, at), {B, T, H * head_size_}, at), at);
  }

  /// The next calls continue the sequences of this cache; with null, they have none before them.
  void continue_from(KeyValueCache* cache) { cache_ = cache; }
  std::int64_t context() const { return context_; }

 private:
  const std::int64_t head_size_, context_;
  Module &c_attn_, &c_proj_;
  KeyValueCache* cache_ = nullptr;
};

class GPTMlp : public Module {
 public:
  GPTMlp(const GPTOptions& options, const GPTLinears& linears)
      : c_fc_(add_child("c_fc", linears.split_outputs(options.width, 4 * options.width))),
        c_proj_(add_child("c_proj", linears.split_inputs(4 * options.width, options.width))) {}

  Tensor forward(const Tensor& x, Where at) override {
    return c_proj_(gelu_tanh(c_fc_(x, at), at), at);
  }

 private:
  Module &c_fc_, &c_proj_;
};

class GPTBlock : public Module {
 public:
  GPTBlock(const GPTOptions& options, const GPTLinears& linears)
      : ln_1_(child("ln_1", LayerNorm(options.width))),
        attn_(child("attn", GPTAttention(options, linears))),
        ln_2_(child("ln_2", LayerNorm(options.width))),
        mlp_(child("mlp", GPTMlp(options, linears))),
        dropout_(child("dropout", Dropout(options.dropout))) {}

  Tensor forward(const Tensor& x, Where at) override {
    const Tensor y = add(x, dropout_(attn_(ln_1_(x, at), at), at), at);
    return add(y, dropout_(mlp_(ln_2_(y, at), at), at), at);
  }

 private:
  Module &ln_1_, &attn_, &ln_2_, &mlp_, &dropout_;
};

/// The scores of all tokens, by the vectors that embed them.
class TiedHead : public Module {
 public:
  explicit TiedHead(const Tensor& embedding) : weight_(parameter("weight", embedding)) {}

  Tensor forward(const Tensor& x, Where at) override { return linear(x, weight_, {}, false, at); }

 private:
  const Tensor weight_;
};

void check(const GPTOptions& options, const GPTLinears& linears, Where where) {
  RINGRAD_CHECK(options.vocabulary > 0 && options.context > 0 && options.layers > 0 &&
                    options.heads > 0 && options.width > 0,
                ValueError, where, "gpt: counts must be positive; got vocabulary ",
                options.vocabulary, ", context ", options.context, ", layers ", options.layers,
                ", heads ", options.heads, ", width ", options.width);
  RINGRAD_CHECK(options.width % options.heads == 0, ValueError, where,
                "gpt: heads must divide the width; got ", options.heads, " and ", options.width);
  RINGRAD_CHECK(linears.parts > 0 && options.heads % linears.parts == 0, ValueError, where,
                "gpt: parts must divide the heads; got ", linears.parts, " and ", options.heads);
}

std::shared_ptr<Module> make_linear(std::int64_t in, std::int64_t out) {
  return std::make_shared<Linear>(in, out);
}

// All start with the same deviation, except the layers that add to the residual stream: those are
// 2 L, so that their sum starts with it.
void draw_initial_values(const Sequential& net, int layers) {
  const NoGradGuard guard;
  for (const auto& [name, x] : net.named_parameters()) {
    if (name.ends_with(".bias")) fill_(x, 0);
    if (x.dims() == 2)
      normal_(x, 0,
              name.ends_with("c_proj.weight") ? kDeviation / std::sqrt(2. * layers) : kDeviation);
  }
}

}  // namespace

Sequential gpt(const GPTOptions& options, Where where) { return gpt(options, GPTLinears{}, where); }

Sequential gpt(const GPTOptions& options, const GPTLinears& linears, Where where) {
  check(options, linears, where);
  GPTLinears make = linears;
  if (!make.split_outputs) make.split_outputs = make_linear;
  if (!make.split_inputs) make.split_inputs = make_linear;

  Sequential net;
  Embedding tokens(options.vocabulary, options.width);
  const Tensor embedding = tokens.weight;
  net.append("wte", std::move(tokens));
  net.append("wpe", PositionEmbedding(options.context, options.width));
  net.append("drop", Dropout(options.dropout));
  for (int i = 0; i < options.layers; ++i) net.append(concat("h.", i), GPTBlock(options, make));
  net.append("ln_f", LayerNorm(options.width));
  net.append("lm_head", TiedHead(embedding));
  draw_initial_values(net, options.layers);
  return net;
}

// --- Files of GPT-2 ---

namespace {

enum class Direction { from_file, to_file };

bool is_linear(const std::string& name) {
  return name.find(".c_attn.") != std::string::npos || name.find(".c_proj.") != std::string::npos ||
         name.find(".c_fc.") != std::string::npos;
}

// The rows of c_attn: a file has all queries, then all keys and all values.
//
//     file   (3, H, D, ...)       ours   (H, 3, D, ...)
Tensor reorder_heads(const Tensor& x, std::int64_t heads, Direction direction, Where where) {
  RINGRAD_CHECK(heads > 0 && x.size(0) % (3 * heads) == 0, ValueError, where,
                "GPT-2: heads must divide the width; got ", heads, " and ", x.size(0) / 3);
  const std::int64_t head_size = x.size(0) / (3 * heads), rest = x.numel() / x.size(0);
  const Shape shape = direction == Direction::from_file ? Shape{3, heads, head_size, rest}
                                                        : Shape{heads, 3, head_size, rest};
  return reshape(transpose(reshape(x, shape), 0, 1), x.shape());
}

Tensor converted(const std::string& name, const Tensor& x, std::int64_t heads, Direction direction,
                 Where where) {
  if (!is_linear(name)) return x;
  const bool is_weight = name.ends_with(".weight");
  RINGRAD_CHECK(x.dims() == (is_weight ? 2 : 1), ShapeError, where, "GPT-2: ", name, " must have ",
                is_weight ? 2 : 1, " axes; got ", x.shape());
  const bool from_file = direction == Direction::from_file;
  Tensor y = is_weight && from_file ? transpose(x, 0, 1) : x;  // (out, in)
  if (name.find(".c_attn.") != std::string::npos) y = reorder_heads(y, heads, direction, where);
  return is_weight && !from_file ? transpose(y, 0, 1) : y;
}

}  // namespace

StateDict from_gpt2(const StateDict& file, std::int64_t heads, Where where) {
  const NoGradGuard guard;
  static constexpr std::string_view kPrefix = "transformer.";
  StateDict state;
  for (const auto& [full_name, x] : file) {
    const std::string name =
        full_name.starts_with(kPrefix) ? full_name.substr(kPrefix.size()) : full_name;
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    state[name] = converted(name, x, heads, Direction::from_file, where);
  }
  if (const auto wte = state.find("wte.weight"); wte != state.end())
    state.try_emplace("lm_head.weight", wte->second);
  return state;
}

StateDict to_gpt2(const StateDict& state, std::int64_t heads, Where where) {
  const NoGradGuard guard;
  StateDict file;
  for (const auto& [name, x] : state)
    if (name != "lm_head.weight")
      file[name] = contiguous(converted(name, x, heads, Direction::to_file, where));
  return file;
}

// --- Generation ---

namespace {

std::vector<GPTAttention*> attentions_of(Sequential& model) {
  std::vector<GPTAttention*> attentions;
  model.visit([&](const std::string&, Module& module) {
    if (auto* attention = dynamic_cast<GPTAttention*>(&module)) attentions.push_back(attention);
  });
  return attentions;
}

// While it exists, calls of the model continue the sequences of these caches, one per attention, in
// evaluation mode. Afterwards the model is as it was.
class Continuation {
 public:
  Continuation(Sequential& model, std::vector<KeyValueCache>& caches) {
    model.visit([&](const std::string&, Module& module) {
      modes_.emplace_back(&module, module.is_training());
    });
    for (const auto& [module, was_training] : modes_) module->set_training(false);
    point_to(caches.data(), caches.front().length());
  }
  ~Continuation() {
    point_to(nullptr, 0);
    for (const auto& [module, was_training] : modes_) module->set_training(was_training);
  }
  Continuation(const Continuation&) = delete;
  Continuation& operator=(const Continuation&) = delete;

 private:
  void point_to(KeyValueCache* cache, std::int64_t first) {
    for (const auto& [module, was_training] : modes_) {
      if (auto* positions = dynamic_cast<PositionEmbedding*>(module)) positions->start_at(first);
      if (auto* attention = dynamic_cast<GPTAttention*>(module))
        attention->continue_from(cache ? cache++ : nullptr);
    }
  }

  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace

GPTGenerator::GPTGenerator(Sequential& model, Where where) : model_(model) {
  for (const GPTAttention* attention : attentions_of(model))
    caches_.emplace_back(attention->context());
  RINGRAD_CHECK(!caches_.empty(), ValueError, where,
                "GPTGenerator: the model must be gpt()'s; got ", model.describe());
}

Tensor GPTGenerator::next(const Tensor& tokens, Where where) {
  const NoGradGuard guard;
  const std::size_t num_layers = attentions_of(model_).size();
  RINGRAD_CHECK(num_layers == caches_.size(), ValueError, where,
                "GPTGenerator: the model must keep its ", caches_.size(), " layers; got ",
                num_layers);
  // A call that failed may have reached some of the attentions.
  for (KeyValueCache& cache : caches_) cache.truncate(length_);
  const Continuation continuation(model_, caches_);
  const Tensor logits = model_(tokens, where);  // (B, T, V)
  length_ += logits.size(1);
  return select(logits, 1, -1, where);
}

}  // namespace ringrad::nn
