// Optimizer steps over flat arrays: parameters, gradients and state are read and written once each.
//
// A model's parameters are consecutive in one array, so a step is one call, not one per parameter.
// The step multiplies the gradient by `grad_scale` as it reads it, which makes clipping by the
// global norm free: take l2_norm of the gradients, then a step with
// grad_scale = min(1, max_norm / norm).
//
// The formulas are PyTorch's, with constants computed in double and rounded once to the type of the
// arithmetic. State is float32 for the 16-bit dtypes: their rounding would discard the updates of a
// second moment that changes by a thousandth per step.

#pragma once

#include <functional>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/optimizer/step_arrays.h"

namespace ringrad::kernels {

struct SgdStep {
  double learning_rate = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  ///< the momentum buffer is unset: it becomes the gradient, undamped
  double grad_scale = 1;
};

/// With g = grad_scale * gradient + weight_decay * parameter:
///
///   buffer = momentum * buffer + (1 - dampening) * g
///   parameter -= learning_rate * buffer                      or, with nesterov,
///   parameter -= learning_rate * (g + momentum * buffer)     or, without momentum,
///   parameter -= learning_rate * g
///
/// Shapes:  all contiguous, with equal numel; buffer may be undefined without momentum
/// DTypes:  parameters and gradients of one floating dtype, state of optimizer_state_dtype
/// Throws:  ShapeError, DTypeError
/// Paper:   Sutskever, Martens, Dahl, Hinton 2013, section 2 (momentum and Nesterov's)
void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const SgdStep& step, Where where = Where::current());

/// As sgd_step, with the numbers that `step` returns. It is called now and, in captured work
/// (core/capture.h), before each replay.
/// REQUIRES: momentum is either always zero or never zero
void replayable_sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
                         const std::function<SgdStep()>& step, Where where = Where::current());

struct AdamStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: decays the parameter itself, not through the gradient
  std::int64_t step = 1;   ///< number of this step, starting at 1
  double grad_scale = 1;
};

/// With g = grad_scale * gradient, + weight_decay * parameter unless decoupled:
///
///   parameter *= 1 - learning_rate * weight_decay            if decoupled
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g^2
///   parameter -= learning_rate * (m / c1) / (sqrt(v / c2) + eps),    c = 1 - beta^step
///
/// Shapes, DTypes, Throws:  as sgd_step; ValueError unless step >= 1
/// Paper:   Kingma, Ba 2014, arXiv:1412.6980, algorithm 1;
///          decoupled: Loshchilov, Hutter 2017, arXiv:1711.05101
void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const AdamStep& step, Where where = Where::current());

void replayable_adam_step(const Tensor& parameters, const Tensor& gradients,
                          const Tensor& first_moment, const Tensor& second_moment,
                          const std::function<AdamStep()>& step, Where where = Where::current());

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
/// Shapes, DTypes, Throws, `step`:  as replayable_sgd_step, here and below
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

/// The sum of x_i^2, accumulated in double. The result does not depend on the number of threads.
/// Squares of float64 numbers above 1e154 overflow: norm_of has no such limit.
///
/// Async:   on a GPU, blocks until the host has the number
/// Throws:  DTypeError unless floating
double sum_of_squares(const Tensor& x, Where where = Where::current());

/// A Euclidean norm as scale * sqrt(squares). The scale is a power of 2; it is 1 unless the squares
/// of float64 numbers would overflow or vanish. So is_finite() is true for finite numbers.
struct Norm {
  double scale = 1;
  double squares = 0;  ///< the sum of (x_i / scale)^2; infinite or NaN if an x_i is

  bool is_finite() const;
  /// Infinite only if the norm exceeds what a double can hold, or if an x_i is infinite.
  double value() const;
  /// Makes this the norm of both tensors together.
  void add(const Norm& other);
};

/// Async, Throws:  as sum_of_squares
Norm norm_of(const Tensor& x, Where where = Where::current());

/// sqrt(sum of x_i^2)
double l2_norm(const Tensor& x, Where where = Where::current());

namespace cpu {

void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const SgdStep& step);
void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const AdamStep& step);
void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const RmspropStep& step);
void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const AdagradStep& step);
void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const LionStep& step);
double sum_of_squares(const Tensor& x);

}  // namespace cpu

namespace cuda {

/// As their namesakes in cpu, for tensors on a GPU.
void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const std::function<SgdStep()>& step, Where where);
void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const std::function<AdamStep()>& step, Where where);
void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const std::function<RmspropStep()>& step, Where where);
void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const std::function<AdagradStep()>& step, Where where);
void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const std::function<LionStep()>& step, Where where);

/// result = sum of x_i^2.    REQUIRES: x is dense, result float64 of shape ()
void sum_of_squares(const Tensor& x, const Tensor& result, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
