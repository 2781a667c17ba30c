#include "ringrad/nn/optimizer/rmsprop.h"

#include "ringrad/kernels/optimizer/adaptive_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

RMSprop::RMSprop(const ParameterGroups& parameters, const RMSpropOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where),
      options_(options),
      square_averages_(zeros_like_arenas()) {
  RINGRAD_CHECK(options.alpha >= 0 && options.alpha <= 1, ValueError, where,
                "RMSprop: alpha must be in [0, 1]; got ", options.alpha);
  check_not_negative("RMSprop", {{"eps", options.eps}, {"momentum", options.momentum}}, where);
  if (options.momentum > 0) velocities_ = zeros_like_arenas();
}

std::map<std::string, std::vector<Tensor>> RMSprop::flat_state() const {
  std::map<std::string, std::vector<Tensor>> state{{"square_average", square_averages_}};
  if (!velocities_.empty()) state.emplace("momentum", velocities_);
  return state;
}

void RMSprop::update(const Range& range, double grad_scale, Where where) {
  const ParameterArena& arena = arenas()[range.arena];
  const auto settings = [this, grad_scale, group = range.group] {
    return kernels::RmspropStep{.learning_rate = learning_rate(group),
                                .alpha = options_.alpha,
                                .eps = options_.eps,
                                .weight_decay = weight_decay(group),
                                .momentum = options_.momentum,
                                .grad_scale = grad_scale};
  };
  const Tensor velocity = velocities_.empty() ? Tensor() : part_of(velocities_[range.arena], range);
  kernels::replayable_rmsprop_step(
      part_of(arena.values(), range), part_of(arena.gradients(), range),
      part_of(square_averages_[range.arena], range), velocity, settings, where);
}

}  // namespace ringrad::nn
