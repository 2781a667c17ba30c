// Steps of RMSprop, Adagrad and Lion over flat arrays, like those of optimizer_step.h.
//
// `step` returns the numbers of a step. It is called now and, in captured work (core/capture.h),
// before each replay.
//
// Shapes, DTypes, Throws:  as sgd_step

#pragma once

#include <functional>

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

struct RmspropStep {
  double learning_rate = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  double grad_scale = 1;
};

/// With g = grad_scale * gradient + weight_decay * parameter:
///
///   s = alpha * s + (1 - alpha) * g^2
///   u = g / (sqrt(s) + eps)
///   buffer = momentum * buffer + u,    parameter -= learning_rate * buffer       or, without
///   momentum,                          parameter -= learning_rate * u
///
/// The buffer may be undefined without momentum.
/// REQUIRES: momentum is either always zero or never zero
void replayable_rmsprop_step(const Tensor& parameters, const Tensor& gradients,
                             const Tensor& square_average, const Tensor& buffer,
                             const std::function<RmspropStep()>& step,
                             Where where = Where::current());

struct AdagradStep {
  double learning_rate = 0.01;  ///< of this step, decay included
  double eps = 1e-10;
  double weight_decay = 0;
  double grad_scale = 1;
};

/// With g = grad_scale * gradient + weight_decay * parameter:
///
///   s = s + g^2
///   parameter -= learning_rate * g / (sqrt(s) + eps)
///
/// Paper:   Duchi, Hazan, Singer 2011, "Adaptive subgradient methods for online learning and
///          stochastic optimization"
void replayable_adagrad_step(const Tensor& parameters, const Tensor& gradients,
                             const Tensor& square_sum, const std::function<AdagradStep()>& step,
                             Where where = Where::current());

struct LionStep {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  double grad_scale = 1;
};

/// With g = grad_scale * gradient:
///
///   parameter = (1 - learning_rate * weight_decay) * parameter
///               - learning_rate * sign(beta1 * m + (1 - beta1) * g)
///   m = beta2 * m + (1 - beta2) * g
///
/// The sign of zero is zero, and that of NaN is NaN.
/// Paper:   Chen et al. 2023, arXiv:2302.06675, algorithm 2
void replayable_lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
                          const std::function<LionStep()>& step, Where where = Where::current());

namespace cpu {

void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const RmspropStep& step);
void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const AdagradStep& step);
void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const LionStep& step);

}  // namespace cpu
}  // namespace ringrad::kernels
