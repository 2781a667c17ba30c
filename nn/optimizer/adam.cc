#include "ringrad/nn/optimizer/adam.h"

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

Adam::Adam(const ParameterGroups& parameters, const AdamOptions& options, bool decoupled_decay,
           Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where),
      options_(options),
      decoupled_decay_(decoupled_decay) {
  check_decay("Adam", {{"beta1", options.beta1}, {"beta2", options.beta2}}, where);
  check_not_negative("Adam", {{"eps", options.eps}}, where);
  add_state("first_moment");
  add_state("second_moment");
}

void Adam::update(const Range& range, double grad_scale, Where where) {
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
  kernels::replayable_adam_step(values(range), gradients(range), state("first_moment", range),
                                state("second_moment", range), settings, where);
}

}  // namespace ringrad::nn
