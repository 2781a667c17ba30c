#include "ringrad/autograd/norm/batch_norm.h"

#include "ringrad/autograd/constant.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/norm/recorded_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/norm/batch_norm_training.h"

namespace ringrad {
namespace {

// The values that the backward function keeps.
struct Saved {
  SavedTensor x;
  SavedTensor weight;          // for the gradient of x; with ReLU also for the sign of y
  SavedTensor bias, residual;  // with ReLU only
  SavedTensor mean;            // in evaluation the caller's running mean itself
  Tensor rstd, mask;           // made here and held by no other code
  DType weight_dtype, bias_dtype;
  BatchNormOptions options;

  kernels::BatchNormSaved unpacked() const {
    return {.x = x.get(),
            .weight = weight.get(),
            .bias = bias.get(),
            .mean = mean.get(),
            .rstd = rstd,
            .relu = options.relu,
            .residual = residual.get()};
  }
};

// The sums for the input's gradient also give the parameters' gradients, so all are set at once.
void backward_fused(BackwardContext& context, const Saved& saved) {
  if (!saved.options.relu) context.set(3, context.grad_output());
  const bool masked = context.needs(3) && saved.options.relu;
  if (!masked && !context.needs(0) && !context.needs(1) && !context.needs(2)) return;
  const kernels::BatchNormSaved values = saved.unpacked();
  const double rows =
      saved.options.training ? static_cast<double>(values.x.numel() / values.mean.numel()) : 0;
  const auto [sums, gradients] = kernels::batch_norm_backward(
      context.grad_output(), values, saved.mask, rows, context.needs(0) || masked);
  context.set(0, gradients.grad_input);
  if (saved.options.relu) context.set(3, gradients.grad_residual);
  if (context.needs(1)) context.set(1, to(sums.grad_xhat, saved.weight_dtype));
  if (context.needs(2)) context.set(2, to(sums.grad, saved.bias_dtype));
}

// The same, composed of recorded operators: the statistics are functions of x again.
void backward_recorded(BackwardContext& context, const Saved& saved) {
  const DType dtype = saved.x.get().dtype();
  const Tensor x = widened(saved.x.get());
  Shape axes;  // all but the channels
  Shape channels = Shape::filled(x.dims(), 1);
  channels[1] = x.shape()[1];
  for (int i = 0; i < x.dims(); ++i)
    if (i != 1) axes.push_back(i);
  const auto per_channel = [&](const Tensor& vector) { return reshape(vector, channels); };
  const auto mean_of = [&](const Tensor& values) { return mean(values, axes, true); };

  const bool training = saved.options.training;
  const Tensor distances = x - (training ? mean_of(x) : per_channel(saved.mean.get()));
  const Tensor centred = training ? distances - mean_of(distances) : distances;
  const Tensor rstd =
      training ? rsqrt(mean_of(square(centred)) + saved.options.eps) : per_channel(saved.rstd);
  const Tensor xhat = centred * rstd;
  const Tensor scale = saved.weight.defined() ? per_channel(saved.weight.get()) * rstd : rstd;

  Tensor grad = widened(context.grad_output());
  if (saved.options.relu) {
    Tensor y = saved.weight.defined() ? xhat * per_channel(saved.weight.get()) : xhat;
    if (saved.bias.defined()) y = y + per_channel(saved.bias.get());
    if (saved.residual.defined()) y = y + saved.residual.get();
    grad = relu_gradient(grad, y.detach());
  }
  if (context.needs(0))
    context.set(
        0,
        to(scale * (training ? grad - mean_of(grad) - xhat * mean_of(grad * xhat) : grad), dtype));
  if (context.needs(1)) context.set(1, to(sum(grad * xhat, axes), saved.weight_dtype));
  if (context.needs(2)) context.set(2, to(sum(grad, axes), saved.bias_dtype));
  if (context.needs(3)) context.set(3, to(grad, dtype));
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options, const Tensor& residual, Where where) {
  check_eps("batch_norm", options.eps, where);
  check_norm_momentum("batch_norm", options.momentum, where);
  // In training they are written and not read, so calls between a checkpoint's two runs may have
  // changed them.
  const auto is_operand = [&](const Tensor& running) {
    return !options.training || (running.defined() && running.requires_grad());
  };
  if (is_operand(running_mean)) check_constant("batch_norm", "running_mean", running_mean, where);
  if (is_operand(running_var)) check_constant("batch_norm", "running_var", running_var, where);
  RINGRAD_CHECK(running_mean.defined() == running_var.defined(), ValueError, where,
                "batch_norm: running_mean and running_var must be given together; got one of them");
  kernels::BatchNormTraining result;
  if (options.training) {
    result = kernels::batch_norm_train(x, weight, bias, options.eps, options.relu, residual, where);
    RINGRAD_CHECK(x.numel() > x.shape()[1], ShapeError, where,
                  "batch_norm: training needs more than one value per channel; got ", x.shape());
  } else {
    RINGRAD_CHECK(running_mean.defined(), ValueError, where,
                  "batch_norm: evaluation needs running statistics; got none");
    const DType dtype = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
    const NoGradGuard guard;
    result.moments = {to(running_mean, dtype), to(running_var, dtype)};
    result.rstd = kernels::batch_norm_rstd(result.moments.var, options.eps);
    result.y = kernels::batch_norm_apply(x, result.moments.mean, result.rstd, weight, bias,
                                         options.relu, residual, where);
  }
  Tensor y = result.y;
  // After all checks of the arguments: a call that throws does not change the running statistics.
  if (options.training && running_mean.defined())
    kernels::batch_norm_update_running(result.moments,
                                       static_cast<double>(x.numel() / x.shape()[1]),
                                       options.momentum, running_mean, running_var, where);
  if (needs_grad(x, weight, bias, residual))
    record("batch_norm", where, y, {&x, &weight, &bias, &residual},
           [saved = Saved{.x = save(x),
                          .weight = save_if(options.relu || x.requires_grad(), weight),
                          .bias = save_if(options.relu, bias),
                          .residual = save_if(options.relu, residual),
                          .mean = save(result.moments.mean),
                          .rstd = result.rstd,
                          .mask = result.mask,
                          .weight_dtype = dtype_or(weight, x),
                          .bias_dtype = dtype_or(bias, x),
                          .options = options}](BackwardContext& context) {
             grad_enabled() ? backward_recorded(context, saved) : backward_fused(context, saved);
           });
  return y;
}

}  // namespace ringrad
