// A stage that only takes time: as much for its forward pass as for each half of its backward pass.

#pragma once

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/tensor.h"
#include "ringrad/nn/module.h"
#include "ringrad/tests/parallel/train/keep_busy.h"

namespace ringrad::testing {

/// REQUIRES: the default device is a simulated GPU
struct BusyStage : nn::Module {
  BusyStage(double us, bool is_first, std::int64_t num_weights = 1)
      : weight(parameter("weight", zeros({num_weights}))), microseconds(us), is_first(is_first) {}

  Tensor forward(const Tensor& x, Where at) override {
    keep_busy(x.device(), microseconds);
    const Tensor y = clone(x.detach(), at);
    record(
        "busy", at, y, {&x, &weight},
        [us = microseconds, is_first = is_first, shape = weight.shape()](BackwardContext& context) {
          const Tensor& grad = context.grad_output();
          if (context.needs(0)) {
            keep_busy(grad.device(), us);
            context.set(0, grad);
          }
          if (context.needs(1)) {
            // The first stage's input needs no gradient, but theory has all stages alike.
            keep_busy(grad.device(), is_first ? 2 * us : us);
            context.set(1, ones(shape, {.device = grad.device()}));
          }
        });
    return y;
  }

  Tensor weight;
  double microseconds;
  bool is_first;
};

}  // namespace ringrad::testing
