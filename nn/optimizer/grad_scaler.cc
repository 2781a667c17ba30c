#include "ringrad/nn/optimizer/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/partial_gradients.h"

namespace ringrad::nn {

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
  check_not_partial("GradScaler: gradients must be whole on this rank", optimizer.parameters(), {},
                    where);
  const bool finite = std::ranges::all_of(optimizer.arenas(), [&](const ParameterArena& arena) {
    arena.settle();
    return kernels::norm_of(arena.gradients(), where).is_finite();
  });
  report(finite);
  if (finite) optimizer.step(1 / scale_, where);
  return finite;
}

void GradScaler::update() {
  if (overflowed_) {
    scale_ *= options_.backoff;
    good_steps_ = 0;
  } else if (++good_steps_ == options_.growth_interval) {
    scale_ *= options_.growth;
    good_steps_ = 0;
  }
  overflowed_ = false;
}

StateDict GradScaler::state_dict() const {
  return {{"scale", scalar_tensor(scale_, {.dtype = DType::float64, .device = Device()})},
          {"good_steps", scalar_tensor(good_steps_, {.dtype = DType::int64, .device = Device()})}};
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
