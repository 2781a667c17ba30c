#include "ringrad/nn/optimizer/adagrad.h"

#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/optimizer/adaptive_step.h"
#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

Adagrad::Adagrad(const ParameterGroups& parameters, const AdagradOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where),
      options_(options),
      square_sums_(zeros_like_arenas()) {
  check_not_negative("Adagrad",
                     {{"learning_rate_decay", options.learning_rate_decay},
                      {"initial_sum", options.initial_sum},
                      {"eps", options.eps}},
                     where);
  if (options.initial_sum != 0)
    for (const Tensor& sums : square_sums_) kernels::fill_(sums, options.initial_sum, where);
}

void Adagrad::update(const Range& range, double grad_scale, Where where) {
  const ParameterArena& arena = arenas()[range.arena];
  const auto settings = [this, grad_scale, range] {
    const auto steps_before = static_cast<double>(*range.num_steps - 1);
    return kernels::AdagradStep{.learning_rate = learning_rate(range.group) /
                                                 (1 + steps_before * options_.learning_rate_decay),
                                .eps = options_.eps,
                                .weight_decay = weight_decay(range.group),
                                .grad_scale = grad_scale};
  };
  kernels::replayable_adagrad_step(part_of(arena.values(), range),
                                   part_of(arena.gradients(), range),
                                   part_of(square_sums_[range.arena], range), settings, where);
}

}  // namespace ringrad::nn
