#include "ringrad/nn/optimizer/lion.h"

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

Lion::Lion(const ParameterGroups& parameters, const LionOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where), options_(options) {
  check_decay("Lion", {{"beta1", options.beta1}, {"beta2", options.beta2}}, where);
  add_state("momentum");
}

void Lion::update(const Range& range, double grad_scale, Where where) {
  const auto settings = [this, grad_scale, group = range.group] {
    return kernels::LionStep{.learning_rate = learning_rate(group),
                             .beta1 = options_.beta1,
                             .beta2 = options_.beta2,
                             .weight_decay = weight_decay(group),
                             .grad_scale = grad_scale};
  };
  kernels::replayable_lion_step(values(range), gradients(range), state("momentum", range), settings,
                                where);
}

}  // namespace ringrad::nn
