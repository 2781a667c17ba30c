#include "ringrad/nn/optimizer/optimizer.h"

#include <utility>

#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/node.h"
#include "ringrad/core/capture.h"
#include "ringrad/core/trace.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"
#include "ringrad/nn/optimizer/clip_to_norm.h"
#include "ringrad/nn/optimizer/partial_gradients.h"
#include "ringrad/nn/optimizer/step_counts.h"

namespace ringrad::nn {

namespace {

void check_learning_rate(double rate, Where where) {
  check_not_negative("optimizer", {{"the learning rate", rate}}, where);
  refuse_while_capturing("set_learning_rate(), which would not be repeated: call it outside",
                         where);
}

// Adds one, now or, in captured work, at each replay.
void increment(std::int64_t& steps) {
  if (is_capturing())
    at_each_replay([&steps] { ++steps; });
  else
    ++steps;
}

double clip_norm(const std::vector<Tensor>& gradients, double max_norm, Where where) {
  check_max_norm(max_norm, where);
  kernels::Norm norm;
  for (const Tensor& gradient : gradients) norm.add(kernels::norm_of(gradient, where));
  return clip_to_norm(gradients, norm, max_norm, where);
}

constexpr const char* kWholeGradients = "clip_grad_norm: gradients must be whole on this rank";

}  // namespace

Optimizer::Optimizer(const ParameterGroups& groups, double learning_rate, double weight_decay,
                     std::vector<ParameterArena> arenas, Where where)
    : parameters_(groups.parameters()), arenas_(std::move(arenas)), weight_decay_(weight_decay) {
  RINGRAD_CHECK(!parameters_.empty(), ValueError, where,
                "optimizer: there must be at least one parameter; got none; layers of a module "
                "must be registered by child()");
  set_learning_rate(learning_rate, where);
  check_not_negative("optimizer", {{"weight_decay", weight_decay}}, where);
  std::map<const TensorImpl*, std::size_t> group_of;
  for (const ParameterGroup& group : groups) {
    check_not_negative("optimizer",
                       {{"a group's learning_rate_scale", group.learning_rate_scale},
                        {"a group's weight_decay", group.weight_decay.value_or(0)}},
                       where);
    for (const Tensor& parameter : group.parameters)
      group_of.emplace(parameter.impl(), groups_.size());
    groups_.push_back({group.learning_rate_scale, group.weight_decay});
  }
  if (arenas_.empty()) arenas_ = make_arenas(parameters_, {}, where);
  for (const ParameterArena& arena : arenas_) {
    steps_.emplace_back(arena.parameters().size(), 0);
    group_of_.emplace_back();
    for (const Tensor& parameter : arena.parameters())
      group_of_.back().push_back(group_of.at(parameter.impl()));
  }
}

void Optimizer::zero_grad() const {
  for (const ParameterArena& arena : arenas_) arena.clear_gradients();
}

void Optimizer::set_learning_rate(double rate, Where where) {
  check_learning_rate(rate, where);
  learning_rate_ = rate;
}

void Optimizer::add_state(const std::string& name, double value) {
  RINGRAD_ASSERT(!states_.contains(name));
  for (const ParameterArena& arena : arenas_)
    states_[name].push_back(full(arena.values().shape(), value,
                                 {.dtype = kernels::optimizer_state_dtype(arena.values().dtype()),
                                  .device = arena.values().device()}));
}

Tensor Optimizer::values(const Range& range) const {
  return view::slice(arenas_[range.arena].values(), 0, range.begin, range.end);
}

Tensor Optimizer::gradients(const Range& range) const {
  return view::slice(arenas_[range.arena].gradients(), 0, range.begin, range.end);
}

Tensor Optimizer::state(const std::string& name, const Range& range) const {
  const auto found = states_.find(name);
  if (found == states_.end()) return {};
  return view::slice(found->second[range.arena], 0, range.begin, range.end);
}

// For each arena, the positions of its parameters among all parameters.
std::vector<std::vector<std::size_t>> Optimizer::positions() const {
  std::map<const TensorImpl*, std::size_t> position;
  for (const Tensor& parameter : parameters_) position.emplace(parameter.impl(), position.size());
  std::vector<std::vector<std::size_t>> result;
  for (const ParameterArena& arena : arenas_) {
    result.emplace_back();
    for (const Tensor& parameter : arena.parameters())
      result.back().push_back(position.at(parameter.impl()));
  }
  return result;
}

StateDict Optimizer::state_dict() const {
  StateDict state{{"step", state_number(num_steps_)},
                  {"learning_rate", state_number(learning_rate_)}};
  const auto positions = this->positions();
  for (std::size_t a = 0; a < arenas_.size(); ++a)
    for (std::size_t i = 0; i < positions[a].size(); ++i)
      state.emplace(concat(positions[a][i], ".steps"), state_number(steps_[a][i]));
  for (const auto& [name, flat] : states_)
    for (std::size_t a = 0; a < arenas_.size(); ++a)
      for (std::size_t i = 0; i < arenas_[a].parameters().size(); ++i) {
        const Tensor& parameter = arenas_[a].parameters()[i];
        state.emplace(concat(positions[a][i], '.', name),
                      view::as_strided(flat[a], parameter.shape(), parameter.strides(),
                                       arenas_[a].slices()[i].offset));
      }
  return state;
}

void Optimizer::check_state_dict(const StateDict& given, Where where) const {
  const StateDict state = with_step_counts(given, state_dict());
  check_same_layout("load_state_dict", state_dict(), state, where);
  const auto step = state.at("step").item<std::int64_t>(where);
  RINGRAD_CHECK(step >= 0, ValueError, where,
                "load_state_dict: the step must not be negative; got ", step);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto steps = state.at(concat(i, ".steps")).item<std::int64_t>(where);
    RINGRAD_CHECK(steps >= 0, ValueError, where,
                  "load_state_dict: a parameter's steps must not be negative; got ", steps);
  }
  check_learning_rate(state.at("learning_rate").item<double>(where), where);
}

void Optimizer::load_state_dict(const StateDict& given, Where where) {
  check_state_dict(given, where);
  const StateDict state = with_step_counts(given, state_dict());
  learning_rate_ = state.at("learning_rate").item<double>(where);
  num_steps_ = state.at("step").item<std::int64_t>(where);
  const auto positions = this->positions();
  for (std::size_t a = 0; a < arenas_.size(); ++a)
    for (std::size_t i = 0; i < positions[a].size(); ++i)
      steps_[a][i] = state.at(concat(positions[a][i], ".steps")).item<std::int64_t>(where);
  copy_state("load_state_dict", state_dict(), state, where);
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, flat] : states_)
    for (const Tensor& state : flat) bytes += static_cast<std::int64_t>(state.storage()->bytes());
  return bytes;
}

void Optimizer::step(Where where) { step(1, where); }

void Optimizer::step(double grad_scale, Where where) {
  const TraceSpan span("optimizer step", "compute");
  // All of them first, as this throws if a parameter was moved: then no parameter has changed.
  for (const ParameterArena& arena : arenas_) arena.settle();
  increment(num_steps_);
  for (std::size_t i = 0; i < arenas_.size(); ++i) update_arena(i, grad_scale, where);
}

// One update for all parameters, or several where parameters lack gradients, or differ in step
// counts or groups.
void Optimizer::update_arena(std::size_t index, double grad_scale, Where where) {
  const ParameterArena& arena = arenas_[index];
  std::vector<std::int64_t>& steps = steps_[index];
  const std::vector<std::size_t>& groups = group_of_[index];
  const std::size_t size = steps.size();
  for (std::size_t first = 0, next; first < size; first = next) {
    next = first + 1;
    if (!arena.has_gradient(first)) continue;
    while (next < size && steps[next] == steps[first] && groups[next] == groups[first] &&
           arena.has_gradient(next))
      ++next;
    for (std::size_t i = first; i < next; ++i) increment(steps[i]);
    const auto [offset, count] = arena.slices()[next - 1];
    update({index, groups[first], arena.slices()[first].offset, offset + count, &steps[first]},
           grad_scale, where);
    for (std::size_t i = first; i < next; ++i) arena.parameters()[i].storage()->mark_changed(where);
  }
}

double clip_grad_norm(const std::vector<ParameterArena>& arenas, double max_norm, Where where) {
  std::vector<Tensor> gradients;
  for (const ParameterArena& arena : arenas) {
    check_not_partial(kWholeGradients, arena.parameters(), {}, where);
    arena.settle();
    gradients.push_back(arena.gradients());
  }
  return clip_norm(gradients, max_norm, where);
}

double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, Where where) {
  check_not_partial(kWholeGradients, parameters, {}, where);
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    RINGRAD_CHECK(parameter.is_leaf(where), AutogradError, where,
                  "clip_grad_norm: parameters must be leaves; got a result of shape ",
                  parameter.shape());
    const Leaf* leaf = leaf_of(parameter);
    if (leaf && leaf->has_gradient()) gradients.push_back(leaf->grad);
  }
  return clip_norm(gradients, max_norm, where);
}

}  // namespace ringrad::nn
