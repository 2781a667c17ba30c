#include "nn/sgd.h"

#include "kernels/optimizer_step.h"

namespace ringrad::nn {

SGD::SGD(const std::vector<Tensor>& parameters, const SGDOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, where), options_(options) {
  RINGRAD_CHECK(options.momentum >= 0 && options.weight_decay >= 0, ValueError, where,
                "SGD: momentum and weight_decay must not be negative; got ", options.momentum,
                " and ", options.weight_decay);
  RINGRAD_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), ValueError,
                where, "SGD: nesterov needs momentum and no dampening; got momentum ",
                options.momentum, " and dampening ", options.dampening);
  if (options.momentum > 0) velocities_ = zeros_like_arenas();
}

std::map<std::string, std::vector<Tensor>> SGD::flat_state() const {
  if (velocities_.empty()) return {};
  return {{"momentum", velocities_}};
}

void SGD::update(std::size_t index, double grad_scale, Where where) {
  const ParameterArena& arena = arenas()[index];
  const auto settings = [this, grad_scale] {
    return kernels::SgdStep{.learning_rate = learning_rate(),
                            .momentum = options_.momentum,
                            .dampening = options_.dampening,
                            .weight_decay = options_.weight_decay,
                            .nesterov = options_.nesterov,
                            .first = num_steps() == 1,
                            .grad_scale = grad_scale};
  };
  kernels::replayable_sgd_step(arena.values(), arena.gradients(),
                               velocities_.empty() ? Tensor() : velocities_[index], settings,
                               where);
}

}  // namespace ringrad::nn
