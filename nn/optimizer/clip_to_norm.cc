#include "ringrad/nn/optimizer/clip_to_norm.h"

#include <cmath>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"

namespace ringrad::nn {

void check_max_norm(double max_norm, Where where) {
  RINGRAD_CHECK(max_norm > 0, ValueError, where,
                "clip_grad_norm: the largest norm must be positive; got ", max_norm);
}

double clip_to_norm(const std::vector<Tensor>& gradients, const kernels::Norm& norm,
                    double max_norm, Where where) {
  RINGRAD_CHECK(norm.is_finite(), ValueError, where,
                "clip_grad_norm: gradients must be finite; got a norm of ", norm.value());
  if (norm.value() <= max_norm) return norm.value();
  const NoGradGuard guard;  // a gradient that create_graph made requires one itself
  const auto scale = [&](double factor) {
    for (const Tensor& gradient : gradients) mul_(gradient, factor, where);
  };
  // The factor may be less than the gradients' dtype can hold: it is applied in several steps, all
  // but the last of which are powers of 2.
  constexpr double kStep = 0x1p-60;
  if (norm.scale != 1) scale(1 / norm.scale);
  double factor = max_norm / std::sqrt(norm.squares);
  for (; factor < kStep && factor > 0; factor /= kStep) scale(kStep);
  scale(factor);
  return norm.value();
}

}  // namespace ringrad::nn
