#include "ringrad/parallel/train/gradients/model_gradients.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "ringrad/autograd/node.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/optimizer/clip_to_norm.h"
#include "ringrad/nn/optimizer/partial_gradients.h"
#include "ringrad/parallel/comm/gather_values.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_agreement.h"

namespace ringrad {

void ModelGradients::add(const std::string& name, nn::Module& module, Where where) {
  add_module(name, module, nullptr, where);
}

void ModelGradients::add(const std::string& name, Pipeline& pipeline, Where where) {
  for (const auto& [index, stage] : pipeline.stages()) {
    add_module(concat(name, '#', index), *stage, &pipeline, where);
    // A piece without a gradient, so that no stage is missing.
    pieces_.push_back(
        {name + "'s stages", pipeline.plan().num_stages, {1, index, index + 1}, 0, 1});
    own_.emplace_back();
  }
}

// A parameter that this rank has under two names counts under the first.
void ModelGradients::add_module(const std::string& name, nn::Module& module,
                                const Pipeline* pipeline, Where where) {
  RINGRAD_CHECK(!name.empty() && name.find('\n') == std::string::npos, ValueError, where,
                "ModelGradients: a name must be one line and not empty; got \"", name, '"');
  is_agreed_ = false;
  const auto layouts = layouts_of(name, module, Spread::replicated);
  for (const auto& [path, parameter] : module.named_parameters()) {
    if (parameter.numel() == 0) continue;
    const bool is_known =
        std::ranges::any_of(own_, [&](const Own& own) { return own.parameter.is(parameter); });
    const ParameterLayout& layout = layouts.at(path);
    pieces_.push_back({layout.name, layout.shape.numel(), layout.slice, 0, parameter.numel(),
                       is_known || (pipeline && pipeline->is_repeated(parameter))});
    own_.push_back(
        {.parameter = parameter, .is_of_pipeline = pipeline != nullptr, .to = parameter.numel()});
  }
}

// Replaces a whole parameter by the pieces that the optimizer's parts have of it.
void ModelGradients::divide(ShardedOptimizer& optimizer, std::size_t index) {
  const Own whole = own_[index];
  const GradientPiece piece = pieces_[index];
  own_.erase(own_.begin() + static_cast<std::ptrdiff_t>(index));
  pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(index));
  for (const ShardedOptimizer::Part& part : optimizer.parts()) {
    const nn::ParameterArena& arena = optimizer.arenas()[part.arena];
    for (std::size_t i = 0; i < arena.parameters().size(); ++i) {
      if (!arena.parameters()[i].is(whole.parameter)) continue;
      const auto [offset, count] = arena.slices()[i];
      const std::int64_t begin = std::max(part.begin, offset),
                         end = std::min(part.begin + part.count, offset + count);
      if (begin >= end) continue;
      own_.push_back({whole.parameter, whole.is_of_pipeline, &optimizer, part, begin - part.begin,
                      end - part.begin});
      GradientPiece cut = piece;
      cut.begin = begin - offset;
      cut.end = end - offset;
      pieces_.push_back(std::move(cut));
    }
  }
}

void ModelGradients::add(ShardedOptimizer& optimizer, Where where) {
  is_agreed_ = false;
  for (const Tensor& parameter : optimizer.parameters()) {
    std::vector<std::size_t> places;
    for (std::size_t i = own_.size(); i-- > 0;)
      if (own_[i].parameter.is(parameter) && !own_[i].averager) places.push_back(i);
    RINGRAD_CHECK(!places.empty() || parameter.numel() == 0, ValueError, where,
                  "ModelGradients: the module of each parameter must be added before its "
                  "ShardedOptimizer, once; got a parameter of shape ",
                  parameter.shape(), " of none");
    for (const std::size_t place : places) divide(optimizer, place);
  }
  averagers_.push_back(&optimizer);
}

// Undefined if there is none.
Tensor ModelGradients::gradient_of(const Own& own) const {
  if (own.averager)
    return view::slice(own.part.optimizer->arenas().front().gradients(), 0, own.from, own.to);
  const bool is_trained = own.parameter.defined() && own.parameter.requires_grad();
  const Leaf* leaf = is_trained ? leaf_of(own.parameter) : nullptr;
  return leaf && leaf->has_gradient() ? own.parameter.grad() : Tensor();
}

// What divides a model further must be added itself.
void ModelGradients::check_marks(Where where) const {
  for (const Own& own : own_) {
    if (!own.parameter.defined()) continue;
    std::vector<nn::PartOf> known{nn::PartOf::slice};
    if (own.is_of_pipeline) known.push_back(nn::PartOf::stage);
    if (own.averager) known.push_back(nn::PartOf::summand);
    nn::check_not_partial(
        "ModelGradients: pipelines and ShardedOptimizers must be added themselves", {own.parameter},
        known, where);
  }
}

ModelGradients::Sum ModelGradients::sum_over_ranks(Where where) {
  check_marks(where);
  if (!is_agreed_) {
    std::vector<std::vector<GradientPiece>> by_rank;
    for (const std::string& text : texts_of_all(text_of(pieces_), comm_, where))
      by_rank.push_back(parse_gradient_pieces(text));
    const std::vector<bool> counted = counted_pieces(by_rank, comm_.rank(), where);
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i].is_counted = counted[i];
    is_agreed_ = true;
  }
  for (ShardedOptimizer* optimizer : averagers_) optimizer->average_gradients(where);
  Sum sum{{}, 1};
  for (const Own& own : own_) {
    const Tensor gradient = gradient_of(own);
    if (!gradient.defined()) continue;
    const kernels::Norm norm = kernels::norm_of(gradient, where);
    if (!norm.is_finite()) sum.is_finite = 0;
    if (own.is_counted) sum.norm.add(norm);
  }
  Sum all{{}, 1};
  for (const Sum& each : gather_values(comm_, sum, where)) {
    all.norm.add(each.norm);
    all.is_finite = std::min(all.is_finite, each.is_finite);
  }
  return all;
}

// Each tensor once.
std::vector<Tensor> ModelGradients::scaled_gradients() const {
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const bool is_again = std::any_of(own_.begin(), own_.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&](const Own& own) {
                                        return own.parameter.is(own_[i].parameter) &&
                                               own.part.optimizer == own_[i].part.optimizer;
                                      });
    const Tensor gradient = is_again ? Tensor() : gradient_of(own_[i]);
    if (gradient.defined()) gradients.push_back(gradient);
  }
  return gradients;
}

double ModelGradients::clip_norm(double max_norm, Where where) {
  nn::check_max_norm(max_norm, where);
  Sum sum = sum_over_ranks(where);
  // A copy that no rank counts is not finite: the copies differ, and no norm is right.
  if (sum.is_finite == 0 && sum.norm.is_finite()) sum.norm.squares = NAN;
  if (!sum.norm.is_finite()) drop_averages();
  return nn::clip_to_norm(scaled_gradients(), sum.norm, max_norm, where);
}

// The next backward pass must not add to averages, and its gradients must be averaged.
void ModelGradients::drop_averages() {
  for (ShardedOptimizer* optimizer : averagers_) optimizer->zero_grad();
}

bool ModelGradients::are_finite(Where where) { return sum_over_ranks(where).is_finite != 0; }

// Gradients that are not looked at might not be finite.
void ModelGradients::check_added(const std::vector<AnyOptimizer>& optimizers, Where where) const {
  std::set<const TensorImpl*> added;
  for (const Own& own : own_)
    if (own.parameter.defined()) added.insert(own.parameter.impl());
  const auto is_added = [&](const Tensor& parameter) {
    return parameter.numel() == 0 || added.contains(parameter.impl());
  };
  for (const AnyOptimizer& any : optimizers) {
    const auto* const sharded = std::get_if<ShardedOptimizer*>(&any);
    RINGRAD_CHECK(sharded
                      ? std::ranges::count(averagers_, *sharded) > 0
                      : std::ranges::all_of(std::get<nn::Optimizer*>(any)->parameters(), is_added),
                  ValueError, where,
                  "ModelGradients: ShardedOptimizers, and the modules of other optimizers, must be "
                  "added before a step; got an optimizer that is not");
  }
}

bool ModelGradients::step(nn::GradScaler& scaler, const std::vector<AnyOptimizer>& optimizers,
                          Where where) {
  check_added(optimizers, where);
  const bool is_finite = are_finite(where);
  scaler.report(is_finite);
  if (!is_finite) {
    drop_averages();
    return false;
  }
  for (const AnyOptimizer& any : optimizers)
    std::visit([&](auto* optimizer) { optimizer->step(1 / scaler.scale(), where); }, any);
  return true;
}

}  // namespace ringrad
