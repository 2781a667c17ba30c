#include "ringrad/nn/optimizer/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/average_loss.h"
#include "ringrad/nn/optimizer/check_options.h"
#include "ringrad/nn/optimizer/partial_gradients.h"

namespace ringrad::nn {
namespace {

// In float64: products of float32 gradients may exceed what float32 can hold.
double dot(const Tensor& a, const Tensor& b) {
  return sum(to(a, DType::float64) * to(b, DType::float64)).item<double>();
}

// NaN if an element is.
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item<double>(); }

// A copy of flat tensors as one, in a dtype in which sums and small steps are not lost.
Tensor joined(const std::vector<Tensor>& parts) {
  const DType wide = kernels::optimizer_state_dtype(parts.front().dtype());
  if (parts.front().dtype() == wide)
    return parts.size() == 1 ? clone(parts.front()) : concatenate(parts, 0);
  return to(concatenate(parts, 0), wide);
}

}  // namespace

LBFGS::LBFGS(const std::vector<Tensor>& parameters, const LBFGSOptions& options, Where where)
    : parameters_(parameters), options_(options) {
  RINGRAD_CHECK(!parameters.empty(), ValueError, where,
                "LBFGS: there must be at least one parameter; got none");
  for (const Tensor& parameter : parameters)
    RINGRAD_CHECK(parameter.dtype() == parameters.front().dtype() &&
                      parameter.device() == parameters.front().device(),
                  ValueError, where, "LBFGS: all parameters must be of one dtype and device; got ",
                  parameters.front().dtype(), " on ", parameters.front().device(), " and ",
                  parameter.dtype(), " on ", parameter.device());
  check_positive("LBFGS", {{"learning_rate", options.learning_rate}}, where);
  check_not_negative("LBFGS",
                     {{"gradient_tolerance", options.gradient_tolerance},
                      {"change_tolerance", options.change_tolerance}},
                     where);
  RINGRAD_CHECK(options.max_iterations > 0 && options.max_evaluations > 0 && options.history > 0,
                ValueError, where,
                "LBFGS: max_iterations, max_evaluations and history must be positive; got ",
                options.max_iterations, ", ", options.max_evaluations, " and ", options.history);
  check_not_partial("LBFGS: parameters must be whole on this rank", parameters, {}, where);
  arenas_ = make_arenas(parameters, {}, where);
}

// A copy of all values, as one flat tensor.
Tensor LBFGS::values() const {
  std::vector<Tensor> parts;
  for (const ParameterArena& arena : arenas_) parts.push_back(arena.values());
  return joined(parts);
}

// Makes the parameters start + step * direction.
void LBFGS::set_values(const Tensor& start, const Tensor& direction, double step,
                       Where where) const {
  std::int64_t begin = 0;
  for (const ParameterArena& arena : arenas_) {
    const std::int64_t end = begin + arena.values().numel();
    const Tensor there = clone(slice(start, 0, begin, end), where);
    if (step != 0) add_(there, slice(direction, 0, begin, end), step, where);
    copy_(arena.values(), there, where);
    for (const Tensor& parameter : arena.parameters()) parameter.storage()->mark_changed(where);
    begin = end;
  }
}

// The loss and its gradient at start + step * direction, where the parameters then are.
LineTrial LBFGS::evaluate(const std::function<Tensor()>& loss, const Tensor& start,
                          const Tensor& direction, double step, Where where) {
  if (step != 0) set_values(start, direction, step, where);
  for (const ParameterArena& arena : arenas_) arena.clear_gradients();
  const double value = [&] {
    const EnableGradGuard guard;
    const Tensor result = loss();
    result.backward({}, {}, where);
    return AverageLoss::of(result.item<double>(where), parameters_, where);
  }();
  std::vector<Tensor> parts;
  for (const ParameterArena& arena : arenas_) {
    arena.settle();
    parts.push_back(arena.gradients());
  }
  const Tensor gradient = joined(parts);
  return {step, value, direction.defined() ? dot(gradient, direction) : 0, gradient};
}

// What was learnt with other parameters frozen would move those, and tells of another function.
void LBFGS::forget_unless_same_are_trained() {
  std::vector<bool> trained;
  for (const Tensor& parameter : parameters_) trained.push_back(parameter.requires_grad());
  if (trained == trained_) return;
  trained_ = std::move(trained);
  pairs_.clear();
  last_move_.reset();
  has_moved_ = false;
}

// Adds what the last move has shown of the curvature, once. A pair of no or negative curvature
// would make the estimate indefinite.
void LBFGS::remember(const Tensor& gradient) {
  const std::optional<Move> move = std::exchange(last_move_, {});
  if (!move) return;
  const Tensor change = gradient - move->gradient;
  const double curvature = dot(change, move->change);
  if (!(curvature > 1e-10)) return;
  if (pairs_.size() == options_.history) pairs_.pop_front();
  pairs_.push_back({move->change, change, curvature});
}

// Minus the product of the inverse Hessian's estimate and the gradient.
Tensor LBFGS::direction_at(const Tensor& gradient) const {
  Tensor result = -gradient;
  std::vector<double> weights(pairs_.size());
  for (std::size_t i = pairs_.size(); i-- > 0;) {
    weights[i] = dot(pairs_[i].step, result) / pairs_[i].curvature;
    add_(result, pairs_[i].gradient_change, -weights[i]);
  }
  if (!pairs_.empty()) {
    const Pair& last = pairs_.back();
    mul_(result, last.curvature / dot(last.gradient_change, last.gradient_change));
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const double weight = dot(pairs_[i].gradient_change, result) / pairs_[i].curvature;
    add_(result, pairs_[i].step, weights[i] - weight);
  }
  return result;
}

double LBFGS::step(const std::function<Tensor()>& loss, Where where) {
  const NoGradGuard guard;
  forget_unless_same_are_trained();
  int evaluations = 1;
  LineTrial now = evaluate(loss, {}, {}, 0, where);
  const double first_value = now.value;
  // False also for a gradient that is not finite: no direction can be had from it.
  const auto may_go_on = [this](const Tensor& gradient) {
    const double size = largest(gradient);
    return size > options_.gradient_tolerance && std::isfinite(size);
  };
  if (!may_go_on(now.gradient)) {
    last_move_.reset();
    return first_value;
  }
  for (int i = 0; i < options_.max_iterations && evaluations < options_.max_evaluations; ++i) {
    remember(now.gradient);
    const Tensor direction = direction_at(now.gradient);
    now.step = 0;
    now.slope = dot(now.gradient, direction);
    const double size = largest(direction);
    if (!(now.slope <= -options_.change_tolerance) || !std::isfinite(size)) break;
    // Without an estimate of the curvature, the first step is at most of length 1.
    const double first_step =
        options_.learning_rate *
        (has_moved_ ? 1 : std::min(1.0, 1 / sum(abs(now.gradient)).item<double>()));
    const Tensor start = values();
    const auto at = [&](double step) {
      ++evaluations;
      return evaluate(loss, start, direction, step, where);
    };
    LineTrial next;
    try {
      next = strong_wolfe(now, first_step, options_.change_tolerance / size,
                          options_.max_evaluations - evaluations, at);
    } catch (...) {
      set_values(start, direction, 0, where);
      throw;
    }
    set_values(start, direction, next.step, where);
    last_move_ = Move{now.gradient, direction * next.step};
    has_moved_ = true;
    const double gain = std::abs(next.value - now.value);
    now = next;
    if (!may_go_on(now.gradient) || size * next.step <= options_.change_tolerance ||
        gain < options_.change_tolerance)
      break;
  }
  return first_value;
}

}  // namespace ringrad::nn
