#include "ringrad/nn/optimizer/lion.h"

#include "ringrad/kernels/optimizer/adaptive_step.h"

namespace ringrad::nn {

Lion::Lion(const ParameterGroups& parameters, const LionOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where),
      options_(options),
      momenta_(zeros_like_arenas()) {
  const auto is_decay = [](double beta) { return beta >= 0 && beta < 1; };
  RINGRAD_CHECK(is_decay(options.beta1) && is_decay(options.beta2), ValueError, where,
                "Lion: beta1 and beta2 must be in [0, 1); got ", options.beta1, " and ",
                options.beta2);
  RINGRAD_CHECK(options.weight_decay >= 0, ValueError, where,
                "Lion: weight_decay must not be negative; got ", options.weight_decay);
}

void Lion::update(const Range& range, double grad_scale, Where where) {
  const ParameterArena& arena = arenas()[range.arena];
  const auto settings = [this, grad_scale, group = range.group] {
    return kernels::LionStep{.learning_rate = learning_rate(group),
                             .beta1 = options_.beta1,
                             .beta2 = options_.beta2,
                             .weight_decay = weight_decay(group),
                             .grad_scale = grad_scale};
  };
  kernels::replayable_lion_step(part_of(arena.values(), range), part_of(arena.gradients(), range),
                                part_of(momenta_[range.arena], range), settings, where);
}

}  // namespace ringrad::nn
