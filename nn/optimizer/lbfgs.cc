#include "ringrad/nn/optimizer/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/optimizer/average_loss.h"

namespace ringrad::nn {
namespace {

double dot(const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); }

double largest(const Tensor& x) { return max(abs(x)).item<double>(); }

}  // namespace

LBFGS::LBFGS(const std::vector<Tensor>& parameters, const LBFGSOptions& options, Where where)
    : options_(options), arena_([&] {
        RINGRAD_CHECK(!parameters.empty(), ValueError, where,
                      "LBFGS: there must be at least one parameter; got none");
        auto arenas = make_arenas(parameters, {}, where);
        RINGRAD_CHECK(arenas.size() == 1, ValueError, where,
                      "LBFGS: all parameters must lie in one arena, of one dtype and device; got ",
                      arenas.size(), " arenas");
        return std::move(arenas.front());
      }()) {
  RINGRAD_CHECK(options.learning_rate > 0 && options.max_iterations > 0 &&
                    options.max_evaluations > 0 && options.history > 0,
                ValueError, where,
                "LBFGS: learning_rate, max_iterations, max_evaluations and history must be "
                "positive; got ",
                options.learning_rate, ", ", options.max_iterations, ", ", options.max_evaluations,
                " and ", options.history);
}

// The loss and its gradient at start + step * direction, where the parameters then are.
LineTrial LBFGS::evaluate(const std::function<Tensor()>& loss, const Tensor& start,
                          const Tensor& direction, double step, Where where) {
  if (step != 0) {
    copy_(arena_.values(), start, where);
    add_(arena_.values(), direction, step, where);
    for (const Tensor& parameter : arena_.parameters()) parameter.storage()->mark_changed(where);
  }
  arena_.clear_gradients();
  const double value = [&] {
    const EnableGradGuard guard;
    const Tensor result = loss();
    result.backward({}, {}, where);
    return AverageLoss::of(result.item<double>(where), arena_.parameters(), where);
  }();
  arena_.settle();
  const Tensor gradient = clone(arena_.gradients());
  return {step, value, direction.defined() ? dot(gradient, direction) : 0, gradient};
}

// Adds what the last step has shown of the curvature. A pair of no or negative curvature would make
// the estimate indefinite.
void LBFGS::remember(const Tensor& gradient) {
  const Tensor change = gradient - last_gradient_;
  const double curvature = dot(change, last_change_);
  if (curvature <= 1e-10) return;
  if (pairs_.size() == options_.history) pairs_.pop_front();
  pairs_.push_back({last_change_, change, curvature});
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
  int evaluations = 1;
  LineTrial now = evaluate(loss, {}, {}, 0, where);
  const double first_value = now.value;
  if (largest(now.gradient) <= options_.gradient_tolerance) return first_value;
  for (int i = 0; i < options_.max_iterations && evaluations < options_.max_evaluations; ++i) {
    const bool is_first = !last_gradient_.defined();
    if (!is_first) remember(now.gradient);
    const Tensor direction = direction_at(now.gradient);
    last_gradient_ = now.gradient;
    now.step = 0;
    now.slope = dot(now.gradient, direction);
    if (now.slope > -options_.change_tolerance) break;
    // Without an estimate of the curvature, the first step is at most of length 1.
    const double first_step =
        options_.learning_rate *
        (is_first ? std::min(1.0, 1 / sum(abs(now.gradient)).item<double>()) : 1);
    const Tensor start = clone(arena_.values());
    const double size = largest(direction);
    const LineTrial next = strong_wolfe(now, first_step, options_.change_tolerance / size,
                                        options_.max_evaluations - evaluations, [&](double step) {
                                          ++evaluations;
                                          return evaluate(loss, start, direction, step, where);
                                        });
    last_change_ = direction * next.step;
    copy_(arena_.values(), start, where);
    add_(arena_.values(), direction, next.step, where);
    for (const Tensor& parameter : arena_.parameters()) parameter.storage()->mark_changed(where);
    const double gain = std::abs(next.value - now.value);
    now = next;
    if (largest(now.gradient) <= options_.gradient_tolerance ||
        size * next.step <= options_.change_tolerance || gain < options_.change_tolerance)
      break;
  }
  return first_value;
}

}  // namespace ringrad::nn
