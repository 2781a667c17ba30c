#include "ringrad/nn/optimizer/sgd.h"

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

SGD::SGD(const ParameterGroups& parameters, const SGDOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where), options_(options) {
  check_not_negative("SGD", {{"momentum", options.momentum}, {"dampening", options.dampening}},
                     where);
  RINGRAD_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), ValueError,
                where, "SGD: nesterov needs momentum and no dampening; got momentum ",
                options.momentum, " and dampening ", options.dampening);
  if (options.momentum > 0) add_state("momentum");
}

void SGD::update(const Range& range, double grad_scale, Where where) {
  const auto settings = [this, grad_scale, range] {
    return kernels::SgdStep{.learning_rate = learning_rate(range.group),
                            .momentum = options_.momentum,
                            .dampening = options_.dampening,
                            .weight_decay = weight_decay(range.group),
                            .nesterov = options_.nesterov,
                            .first = *range.num_steps == 1,
                            .grad_scale = grad_scale};
  };
  kernels::replayable_sgd_step(values(range), gradients(range), state("momentum", range), settings,
                               where);
}

}  // namespace ringrad::nn
