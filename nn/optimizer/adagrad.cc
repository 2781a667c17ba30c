#include "ringrad/nn/optimizer/adagrad.h"

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

Adagrad::Adagrad(const ParameterGroups& parameters, const AdagradOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where), options_(options) {
  check_not_negative("Adagrad",
                     {{"learning_rate_decay", options.learning_rate_decay},
                      {"initial_sum", options.initial_sum},
                      {"eps", options.eps}},
                     where);
  add_state("square_sum", options.initial_sum);
}

void Adagrad::update(const Range& range, double grad_scale, Where where) {
  const auto settings = [this, grad_scale, range] {
    const auto steps_before = static_cast<double>(*range.num_steps - 1);
    return kernels::AdagradStep{.learning_rate = learning_rate(range.group) /
                                                 (1 + steps_before * options_.learning_rate_decay),
                                .eps = options_.eps,
                                .weight_decay = weight_decay(range.group),
                                .grad_scale = grad_scale};
  };
  kernels::replayable_adagrad_step(values(range), gradients(range), state("square_sum", range),
                                   settings, where);
}

}  // namespace ringrad::nn
