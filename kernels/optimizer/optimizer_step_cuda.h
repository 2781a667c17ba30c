// The kernels behind optimizer_step.h. Private to kernels/.

#pragma once

#include "ringrad/kernels/optimizer/optimizer_step.h"

namespace ringrad::kernels::cuda {

/// As their namesakes in cpu, for tensors on a GPU.
void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const std::function<SgdStep()>& step, Where where);
void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const std::function<AdamStep()>& step, Where where);

/// result = sum of x_i^2.    REQUIRES: x is dense, result float64 of shape ()
void sum_of_squares(const Tensor& x, const Tensor& result, Where where);

}  // namespace ringrad::kernels::cuda
