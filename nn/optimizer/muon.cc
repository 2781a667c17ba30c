#include "ringrad/nn/optimizer/muon.h"

#include <algorithm>
#include <cmath>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/check_options.h"
#include "ringrad/nn/optimizer/partial_gradients.h"

namespace ringrad::nn {

Tensor orthogonalized(const Tensor& x, int iterations, DType dtype, Where where) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7;
  const Autocast off(DType::float32);
  const bool tall = x.shape(where)[0] > x.shape()[1];
  // Divided before it is narrowed: float16 could not hold very small or large elements.
  Tensor y = to(tall ? transpose(x, 0, 1, where) : x,
                promote(kernels::optimizer_state_dtype(x.dtype()), dtype), where);
  const Tensor norm = sqrt(sum(square(y, where), {}, false, where), where);
  y = to(y / maximum(norm, eps, where), dtype, where);
  for (int i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(y, transpose(y, 0, 1, where), where);
    y = a * y + matmul(b * gram + c * matmul(gram, gram, where), y, where);
  }
  return to(tall ? transpose(y, 0, 1, where) : y, x.dtype(), where);
}

Muon::Muon(const ParameterGroups& parameters, const MuonOptions& options, Where where)
    : Optimizer(parameters, options.learning_rate, options.weight_decay, where), options_(options) {
  check_decay("Muon", {{"momentum", options.momentum}}, where);
  RINGRAD_CHECK(options.iterations > 0, ValueError, where,
                "Muon: iterations must be positive; got ", options.iterations);
  RINGRAD_CHECK(is_floating(options.dtype), DTypeError, where, "Muon: dtype must be floating; got ",
                options.dtype);
  for (const Tensor& parameter : this->parameters())
    RINGRAD_CHECK(parameter.dims() == 2, ShapeError, where,
                  "Muon: parameters must be matrices; got one of shape ", parameter.shape(),
                  "; give it to another optimizer");
  check_not_partial("Muon: matrices must be whole on this rank", this->parameters(),
                    {PartOf::stage, PartOf::summand}, where);
  add_state("momentum");
}

void Muon::update(const Range& range, double grad_scale, Where where) {
  const NoGradGuard guard;
  const ParameterArena& arena = arenas()[range.arena];
  for (std::size_t i = 0; i < arena.parameters().size(); ++i) {
    const auto [offset, count] = arena.slices()[i];
    if (count == 0 || offset < range.begin || offset >= range.end) continue;
    Range one = range;
    one.begin = offset;
    one.end = offset + count;
    update_matrix(one, arena.parameters()[i], grad_scale, where);
  }
}

// The last step is SGD's along the orthogonal matrix, laid out in memory as the parameter is.
void Muon::update_matrix(const Range& range, const Tensor& parameter, double grad_scale,
                         Where where) {
  const auto matrix_of = [&](const Tensor& flat) {
    return view::as_strided(flat, parameter.shape(), parameter.strides(), flat.offset());
  };
  const Tensor velocity = matrix_of(state("momentum", range));
  const double rest = 1 - options_.momentum;
  const Tensor gradient =
      mul(to(matrix_of(gradients(range)), velocity.dtype(), where), grad_scale, where);
  mul_(velocity, options_.momentum, where);
  add_(velocity, gradient, rest, where);
  const Tensor direction =
      options_.nesterov ? gradient * rest + velocity * options_.momentum : velocity;
  const Tensor steps = empty({range.end - range.begin},
                             {.dtype = parameter.dtype(), .device = parameter.device()}, where);
  copy_(matrix_of(steps), orthogonalized(direction, options_.iterations, options_.dtype, where),
        where);
  const auto rows = static_cast<double>(parameter.shape()[0]),
             columns = static_cast<double>(parameter.shape()[1]);
  const double size = options_.match_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                           : std::sqrt(std::max(1.0, rows / columns));
  const auto settings = [this, size, group = range.group] {
    return kernels::SgdStep{.learning_rate = learning_rate(group) * size,
                            .weight_decay = weight_decay(group) / size};
  };
  kernels::replayable_sgd_step(values(range), steps, {}, settings, where);
}

}  // namespace ringrad::nn
