#include "ringrad/nn/optimizer/adam.h"

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

Adam::Adam(const ParameterGroups& parameters, const AdamOptions& options, bool decoupled_decay,
           Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where),
      options_(options),
      decoupled_decay_(decoupled_decay),
      first_moments_(zeros_like_arenas()),
      second_moments_(zeros_like_arenas()) {
  check_decay("Adam", {{"beta1", options.beta1}, {"beta2", options.beta2}}, where);
  check_not_negative("Adam", {{"eps", options.eps}}, where);
}

void Adam::update(const Range& range, double grad_scale, Where where) {
  const ParameterArena& arena = arenas()[range.arena];
  const auto settings = [this, grad_scale, range] {
    return kernels::AdamStep{.learning_rate = learning_rate(range.group),
                             .beta1 = options_.beta1,
                             .beta2 = options_.beta2,
                             .eps = options_.eps,
                             .weight_decay = weight_decay(range.group),
                             .decoupled = decoupled_decay_,
                             .step = *range.num_steps,
                             .grad_scale = grad_scale};
  };
  kernels::replayable_adam_step(part_of(arena.values(), range), part_of(arena.gradients(), range),
                                part_of(first_moments_[range.arena], range),
                                part_of(second_moments_[range.arena], range), settings, where);
}

}  // namespace ringrad::nn
