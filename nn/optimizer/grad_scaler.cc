#include "ringrad/nn/optimizer/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/clip_to_norm.h"
#include "ringrad/nn/optimizer/partial_gradients.h"

namespace ringrad::nn {
namespace {

// Beyond them, float32 losses or gradients are 0 or infinite at any scale.
constexpr double kLeastScale = 0x1p-24, kLargestScale = 0x1p120;

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options, Where where)
    : options_(options), scale_(options.initial_scale) {
  RINGRAD_CHECK(std::isfinite(options.initial_scale) && options.initial_scale > 0 &&
                    std::isfinite(options.growth) && options.growth > 1 && options.backoff > 0 &&
                    options.backoff < 1 && options.growth_interval > 0,
                ValueError, where,
                "GradScaler: must hold initial_scale > 0, growth > 1, 0 < backoff < 1 and "
                "growth_interval > 0, all finite; got ",
                options.initial_scale, ", ", options.growth, ", ", options.backoff, " and ",
                options.growth_interval);
}

Tensor GradScaler::scale(const Tensor& loss, Where where) const { return mul(loss, scale_, where); }

bool GradScaler::step(Optimizer& optimizer, Where where) {
  return step(optimizer, std::numeric_limits<double>::infinity(), where);
}

bool GradScaler::step(Optimizer& optimizer, double max_norm, Where where) {
  check_max_norm(max_norm, where);
  check_not_partial("GradScaler: gradients must be whole on this rank", optimizer.parameters(), {},
                    where);
  std::vector<Tensor> gradients;
  kernels::Norm norm;
  for (const ParameterArena& arena : optimizer.arenas()) {
    arena.settle();
    gradients.push_back(arena.gradients());
    norm.add(kernels::norm_of(gradients.back(), where));
  }
  report(norm.is_finite());
  if (!norm.is_finite()) return false;
  clip_to_norm(gradients, norm, max_norm * scale_, where);
  optimizer.step(1 / scale_, where);
  return true;
}

void GradScaler::update() {
  if (overflowed_) {
    scale_ = std::max(scale_ * options_.backoff, std::min(scale_, kLeastScale));
    good_steps_ = 0;
  } else if (++good_steps_ == options_.growth_interval) {
    scale_ = std::min(scale_ * options_.growth, std::max(scale_, kLargestScale));
    good_steps_ = 0;
  }
  overflowed_ = false;
}

StateDict GradScaler::state_dict() const {
  return {{"scale", state_number(scale_)}, {"good_steps", state_number(good_steps_)}};
}

void GradScaler::check_state_dict(const StateDict& state, Where where) const {
  check_same_layout("load_state_dict", state_dict(), state, where);
  const auto scale = state.at("scale").item<double>(where);
  const auto good_steps = state.at("good_steps").item<std::int64_t>(where);
  RINGRAD_CHECK(
      std::isfinite(scale) && scale > 0 && good_steps >= 0, ValueError, where,
      "load_state_dict: scale must be positive and finite, and good_steps not negative; got ",
      scale, " and ", good_steps);
}

void GradScaler::load_state_dict(const StateDict& state, Where where) {
  check_state_dict(state, where);
  scale_ = state.at("scale").item<double>(where);
  good_steps_ = state.at("good_steps").item<std::int64_t>(where);
  overflowed_ = false;
}

}  // namespace ringrad::nn
