#include "kernels/batch_norm_training.h"

#include "kernels/dense.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_binary_ops.h"
#include "kernels/elementwise_unary_ops.h"
#include "kernels/provider.h"

namespace ringrad::kernels {
namespace {

/// True for arguments that the vendor's library may be asked about. All else, errors too, is the passes'.
bool is_for_vendor(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& residual, Where where) {
  const auto is_plain = [&](const Tensor& vector) {
    return vector.defined() && vector.dtype() == DType::float32 && vector.device() == x.device() &&
           vector.shape() == Shape{x.shape()[1]} && vector.is_contiguous();
  };
  const bool is_image = x.device().is_cuda() && x.dims() == 4 && x.dtype() != DType::float64 &&
                        x.numel() > x.shape()[1] && x.is_channels_last();
  if (!is_image || !is_plain(weight) || !is_plain(bias)) return false;
  if (residual.defined() && (residual.shape() != x.shape() || residual.dtype() != x.dtype() ||
                             residual.device() != x.device()))
    return false;
  return uses_vendor(Provided::batch_norm, where);
}

Tensor like_channels(const Tensor& x, Where where) {
  return empty({x.shape()[1]}, {.dtype = DType::float32, .device = x.device()}, where);
}

Tensor bits_of(const Tensor& x, Where where) {
  return empty({(x.numel() + 7) / 8}, {.dtype = DType::uint8, .device = x.device()}, where);
}

}  // namespace

BatchNormTraining batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   double eps, bool relu, const Tensor& residual, Where where) {
  if (is_for_vendor(x, weight, bias, residual, where)) {
    BatchNormProblem problem{.x = x, .weight = weight, .bias = bias, .eps = eps};
    if (residual.defined()) problem.residual = in_order_of(residual, x, where);
    problem.y = empty_like(x, where);
    problem.mean = like_channels(x, where);
    problem.rstd = like_channels(x, where);
    if (relu) problem.mask = bits_of(x, where);
    if (vendor::batch_norm(problem, where)) {
      const Tensor var = unary(ops::RightScalar<ops::Sub>(eps),
                               unary(ops::PowScalar(-2), problem.rstd, where), where);
      return {problem.y, {problem.mean, var}, problem.rstd, problem.mask};
    }
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
  if (rows > 0 && saved.relu == mask.defined() &&
      is_for_vendor(x, saved.weight, saved.bias, grad_output, where)) {
    BatchNormProblem problem{
        .x = x, .weight = saved.weight, .mean = saved.mean, .rstd = saved.rstd, .mask = mask};
    problem.grad_y = in_order_of(grad_output, x, where);
    problem.grad_x = empty_like(x, where);
    problem.grad_weight = like_channels(x, where);
    problem.grad_bias = like_channels(x, where);
    // In 16 bits cuDNN has no ReLU here without this result.
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
