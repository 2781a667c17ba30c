#include "nn/optimizer.h"

#include <cmath>
#include <utility>

#include "autograd/in_place.h"
#include "autograd/movement.h"
#include "core/capture.h"
#include "core/trace.h"
#include "core/view.h"
#include "kernels/copy.h"
#include "kernels/optimizer_step.h"

namespace ringrad::nn {

namespace {

void check_learning_rate(double rate, Where where) {
  RINGRAD_CHECK(rate >= 0, ValueError, where,
                "optimizer: the learning rate must not be negative; got ", rate);
  refuse_while_capturing("set_learning_rate(), which would not be repeated: call it outside",
                         where);
}

}  // namespace

Optimizer::Optimizer(const std::vector<Tensor>& parameters, double learning_rate, Where where)
    : parameters_(parameters) {
  RINGRAD_CHECK(!parameters.empty(), ValueError, where,
                "optimizer: there must be at least one parameter; got none");
  set_learning_rate(learning_rate, where);
  arenas_ = make_arenas(parameters, {}, where);
}

void Optimizer::zero_grad() const {
  for (const ParameterArena& arena : arenas_) arena.clear_gradients();
}

void Optimizer::set_learning_rate(double rate, Where where) {
  check_learning_rate(rate, where);
  learning_rate_ = rate;
}

std::vector<Tensor> Optimizer::zeros_like_arenas() const {
  std::vector<Tensor> state;
  for (const ParameterArena& arena : arenas_)
    state.push_back(zeros(arena.values().shape(),
                          {.dtype = kernels::optimizer_state_dtype(arena.values().dtype()),
                           .device = arena.values().device()}));
  return state;
}

StateDict Optimizer::state_dict() const {
  const Options number{.dtype = DType::int64, .device = Device()};
  StateDict state{{"step", scalar_tensor(num_steps_, number)},
                  {"learning_rate",
                   scalar_tensor(learning_rate_, {.dtype = DType::float64, .device = Device()})}};
  std::map<const TensorImpl*, std::size_t> position;
  for (const Tensor& parameter : parameters_) position.emplace(parameter.impl(), position.size());
  for (const auto& [name, flat] : flat_state())
    for (std::size_t a = 0; a < arenas_.size(); ++a)
      for (std::size_t i = 0; i < arenas_[a].parameters().size(); ++i) {
        const Tensor& parameter = arenas_[a].parameters()[i];
        state.emplace(concat(position.at(parameter.impl()), '.', name),
                      view::as_strided(flat[a], parameter.shape(), parameter.strides(),
                                       arenas_[a].slices()[i].offset));
      }
  return state;
}

void Optimizer::check_state_dict(const StateDict& state, Where where) const {
  check_same_layout("load_state_dict", state_dict(), state, where);
  const auto step = state.at("step").item<std::int64_t>(where);
  RINGRAD_CHECK(step >= 0, ValueError, where,
                "load_state_dict: the step must not be negative; got ", step);
  check_learning_rate(state.at("learning_rate").item<double>(where), where);
}

void Optimizer::load_state_dict(const StateDict& state, Where where) {
  check_state_dict(state, where);
  learning_rate_ = state.at("learning_rate").item<double>(where);
  num_steps_ = state.at("step").item<std::int64_t>(where);
  copy_state("load_state_dict", state_dict(), state, where);
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, flat] : flat_state())
    for (const Tensor& state : flat) bytes += static_cast<std::int64_t>(state.storage()->bytes());
  return bytes;
}

void Optimizer::step(Where where) { step(1, where); }

// An update goes over the whole arena; momentum and weight decay would move a frozen parameter.
void Optimizer::step(double grad_scale, Where where) {
  const TraceSpan span("optimizer step", "compute");
  if (is_capturing())
    at_each_replay([this] { ++num_steps_; });
  else
    ++num_steps_;
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    arenas_[i].settle();
    std::vector<std::pair<Tensor, Tensor>> frozen;
    for (const Tensor& parameter : arenas_[i].parameters())
      if (!parameter.requires_grad()) frozen.emplace_back(parameter, clone(parameter, where));
    update(i, grad_scale, where);
    for (const auto& [parameter, value] : frozen) kernels::copy_(parameter, value, where);
    for (const Tensor& parameter : arenas_[i].parameters()) parameter.mark_changed(where);
  }
}

double clip_grad_norm(const std::vector<ParameterArena>& arenas, double max_norm, Where where) {
  RINGRAD_CHECK(max_norm > 0, ValueError, where,
                "clip_grad_norm: the largest norm must be positive; got ", max_norm);
  double squares = 0;
  for (const ParameterArena& arena : arenas) {
    arena.settle();
    squares += kernels::sum_of_squares(arena.gradients(), where);
  }
  const double norm = std::sqrt(squares);
  RINGRAD_CHECK(std::isfinite(norm), ValueError, where,
                "clip_grad_norm: gradients must be finite; got a norm of ", norm);
  if (norm > max_norm)
    for (const ParameterArena& arena : arenas) mul_(arena.gradients(), max_norm / norm, where);
  return norm;
}

}  // namespace ringrad::nn
