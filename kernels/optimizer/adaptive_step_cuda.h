// The kernels behind adaptive_step.h. Private to kernels/.

#pragma once

#include "ringrad/kernels/optimizer/adaptive_step.h"

namespace ringrad::kernels::cuda {

/// As their namesakes in cpu, for tensors on a GPU.
void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const std::function<RmspropStep()>& step, Where where);
void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const std::function<AdagradStep()>& step, Where where);
void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const std::function<LionStep()>& step, Where where);

}  // namespace ringrad::kernels::cuda
