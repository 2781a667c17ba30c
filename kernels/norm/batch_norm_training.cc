#include "ringrad/kernels/norm/batch_norm_training.h"

#include "ringrad/kernels/copy/dense.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/kernels/library/shared_gpu.h"

namespace ringrad::kernels {
namespace {

/// True for a per-channel vector in the form that the vendor's library takes.
bool is_plain(const Tensor& vector, const Tensor& x) {
  return vector.defined() && vector.dtype() == DType::float32 && vector.device() == x.device() &&
         vector.shape() == Shape{x.shape()[1]} && vector.is_contiguous();
}

bool is_like(const Tensor& tensor, const Tensor& x) {
  return tensor.shape() == x.shape() && tensor.dtype() == x.dtype() &&
         tensor.device() == x.device();
}

/// True for images that the vendor's library may support. Everything else, including errors, goes
/// to the passes. The library stores ReLU's bits in words of 32.
bool is_for_vendor(const Tensor& x, bool relu, Where where) {
  return x.device().is_cuda() && x.dims() == 4 && x.dtype() != DType::float64 &&
         x.is_channels_last() && x.shape()[1] % (relu ? 32 : 8) == 0 && x.numel() > x.shape()[1] &&
         may_use_vendor(Provided::batch_norm, is_shared(x.device())) &&
         uses_vendor(Provided::batch_norm, where);
}

Tensor like_channels(const Tensor& x, Where where) {
  return empty({x.shape()[1]}, {.dtype = DType::float32, .device = x.device()}, where);
}

Tensor bits_of(const Tensor& x, Where where) {
  return empty({x.numel() / 8}, {.dtype = DType::uint8, .device = x.device()}, where);
}

}  // namespace

BatchNormTraining batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   double eps, bool relu, const Tensor& residual, Where where) {
  if (is_for_vendor(x, relu, where) && is_plain(weight, x) && is_plain(bias, x) &&
      (!residual.defined() || is_like(residual, x))) {
    BatchNormProblem problem{.x = x, .weight = weight, .bias = bias, .eps = eps};
    if (residual.defined()) problem.residual = in_order_of(residual, x, where);
    problem.y = empty_like(x, where);
    problem.mean = like_channels(x, where);
    problem.rstd = like_channels(x, where);
    if (relu) problem.mask = bits_of(x, where);
    if (vendor::batch_norm(problem, where))
      return {problem.y,
              {problem.mean, batch_norm_var(problem.rstd, eps, where)},
              problem.rstd,
              problem.mask};
  }
  BatchNormTraining result{.moments = batch_norm_moments(x, where)};
  result.rstd = batch_norm_rstd(result.moments.var, eps, where);
  result.y =
      batch_norm_apply(x, result.moments.mean, result.rstd, weight, bias, relu, residual, where);
  return result;
}

BatchNormBackward batch_norm_backward(const Tensor& grad_output, const BatchNormSaved& saved,
                                      const Tensor& mask, double rows, bool with_input,
                                      Where where) {
  const Tensor& x = saved.x;
  // The library does not know other devices' rows, and computes all gradients at once.
  const bool is_whole =
      x.dims() > 1 && rows * static_cast<double>(x.shape()[1]) == static_cast<double>(x.numel());
  if (with_input && is_whole && saved.relu == mask.defined() &&
      is_for_vendor(x, saved.relu, where) && is_like(grad_output, x) && is_plain(saved.weight, x) &&
      is_plain(saved.mean, x) && is_plain(saved.rstd, x)) {
    BatchNormProblem problem{
        .x = x, .weight = saved.weight, .mean = saved.mean, .rstd = saved.rstd, .mask = mask};
    problem.grad_y = in_order_of(grad_output, x, where);
    problem.grad_x = empty_like(x, where);
    problem.grad_weight = like_channels(x, where);
    problem.grad_bias = like_channels(x, where);
    // In 16 bits, cuDNN supports ReLU here only together with this result.
    if (saved.relu && (saved.residual.defined() || x.dtype() != DType::float32))
      problem.grad_residual = empty_like(x, where);
    if (vendor::batch_norm_backward(problem, where)) {
      const Tensor grad_residual = saved.relu ? problem.grad_residual : grad_output;
      return {{problem.grad_bias, problem.grad_weight},
              {problem.grad_x, saved.residual.defined() ? grad_residual : Tensor()}};
    }
  }
  BatchNormBackward result{.sums = batch_norm_backward_sums(grad_output, saved, where)};
  if (with_input)
    result.gradients = batch_norm_backward_apply(grad_output, saved, result.sums, rows, where);
  return result;
}

}  // namespace ringrad::kernels
