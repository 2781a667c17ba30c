#include "nn/optimizer.h"

#include <cmath>
#include <utility>

#include "autograd/in_place.h"
#include "autograd/movement.h"
#include "core/capture.h"
#include "kernels/copy.h"
#include "kernels/optimizer_step.h"

namespace ringrad::nn {

Optimizer::Optimizer(const std::vector<Tensor>& parameters, double learning_rate, Where where) {
  RINGRAD_CHECK(!parameters.empty(), ValueError, where,
                "optimizer: there must be at least one parameter; got none");
  set_learning_rate(learning_rate, where);
  arenas_ = make_arenas(parameters, {}, where);
}

void Optimizer::zero_grad() const {
  for (const ParameterArena& arena : arenas_) arena.clear_gradients();
}

void Optimizer::set_learning_rate(double rate, Where where) {
  RINGRAD_CHECK(rate >= 0, ValueError, where,
                "optimizer: the learning rate must not be negative; got ", rate);
  refuse_while_capturing("set_learning_rate(), which would not be repeated: call it outside",
                         where);
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

void Optimizer::step(Where where) { step(1, where); }

// An update goes over the whole arena; momentum and weight decay would move a frozen parameter.
void Optimizer::step(double grad_scale, Where where) {
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
