#include "ringrad/nn/optimizer/rmsprop.h"

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

RMSprop::RMSprop(const ParameterGroups& parameters, const RMSpropOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where), options_(options) {
  RINGRAD_CHECK(options.alpha >= 0 && options.alpha <= 1, ValueError, where,
                "RMSprop: alpha must be in [0, 1]; got ", options.alpha);
  check_not_negative("RMSprop", {{"eps", options.eps}, {"momentum", options.momentum}}, where);
  add_state("square_average");
  if (options.momentum > 0) add_state("momentum");
}

void RMSprop::update(const Range& range, double grad_scale, Where where) {
  const auto settings = [this, grad_scale, group = range.group] {
    return kernels::RmspropStep{.learning_rate = learning_rate(group),
                                .alpha = options_.alpha,
                                .eps = options_.eps,
                                .weight_decay = weight_decay(group),
                                .momentum = options_.momentum,
                                .grad_scale = grad_scale};
  };
  kernels::replayable_rmsprop_step(values(range), gradients(range), state("square_average", range),
                                   state("momentum", range), settings, where);
}

}  // namespace ringrad::nn
