#include "ringrad/kernels/norm/group_norm.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/norm/channel_norm.h"
#include "ringrad/kernels/norm/norm_cpu.h"
#include "ringrad/kernels/norm/norm_operands.h"

namespace ringrad::kernels {
namespace {

using channel_norm::check_input;
using channel_norm::check_vector;
using norm_operands::data_or_null;
using norm_operands::operand;
using norm_operands::result_for;
using norm_operands::statistics_dtype;

cpu::Groups groups_of(const Tensor& x, std::int64_t groups) {
  const std::int64_t B = x.shape()[0], C = x.shape()[1];
  return {B, groups, C / groups, x.numel() / (B * C)};
}

/// `result` itself if it is contiguous and of the dtype of the arithmetic, else memory for
/// contiguous values to be copied into it.
Tensor contiguous_for(const Tensor& result, DType dtype, Where where) {
  if (result.is_contiguous() && result.dtype() == dtype) return result;
  return empty(result.shape(), {.dtype = dtype, .device = result.device()}, where);
}

}  // namespace

NormResult group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight,
                      const Tensor& bias, double eps, Where where) {
  constexpr const char* kOperation = "group_norm";
  check_input(kOperation, x, where);
  RINGRAD_CHECK(groups > 0 && x.shape()[1] % groups == 0, ShapeError, where, kOperation,
                ": the number of groups must divide the channels; got ", groups, " and x ",
                x.shape());
  check_vector(kOperation, "weight", weight, x, where);
  check_vector(kOperation, "bias", bias, x, where);
  const DType dtype = statistics_dtype(x);
  const Shape rows{x.shape()[0], groups};
  const NormResult result{empty_like(x, where), result_for(x, rows, dtype, where),
                          result_for(x, rows, dtype, where)};
  if (x.numel() == 0) return result;
  const bool on_gpu = x.device().is_cuda();
  const Tensor y = contiguous_for(result.output, on_gpu ? x.dtype() : dtype, where);
  if (on_gpu) {
    cuda::group_norm(contiguous(x, where), weight, bias, eps, {y, result.mean, result.rstd}, where);
  } else {
    const Tensor in = operand(x, dtype, where), scale = operand(weight, dtype, where),
                 offset = operand(bias, dtype, where);
    dispatch_math(dtype, [&]<class T>() {
      cpu::group_norm(groups_of(x, groups), static_cast<T>(eps), in.data<T>(),
                      data_or_null<T>(scale), data_or_null<T>(offset), y.data<T>(),
                      result.mean.data<T>(), result.rstd.data<T>());
    });
  }
  copy_(result.output, y, where);
  return result;
}

NormGradients group_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& rstd, Where where) {
  constexpr const char* kOperation = "group_norm_backward";
  check_input(kOperation, x, where);
  check_vector(kOperation, "weight", weight, x, where);
  norm_operands::check_gradient(kOperation, grad_output, x, where);
  const DType dtype = statistics_dtype(x);
  const Shape channels{x.shape()[1]};
  const NormGradients result{empty_like(x, where), result_for(x, channels, dtype, where),
                             result_for(x, channels, dtype, where)};
  if (x.numel() == 0) return result;
  const bool on_gpu = x.device().is_cuda();
  const Tensor grad_input = contiguous_for(result.input, on_gpu ? x.dtype() : dtype, where);
  if (on_gpu) {
    cuda::group_norm_backward(contiguous(grad_output, where), contiguous(x, where), weight, mean,
                              rstd, {grad_input, result.weight, result.bias}, where);
  } else {
    const Tensor in = operand(x, dtype, where), grad = operand(grad_output, dtype, where),
                 scale = operand(weight, dtype, where);
    dispatch_math(dtype, [&]<class T>() {
      cpu::group_norm_backward(groups_of(x, mean.shape()[1]), in.data<T>(), data_or_null<T>(scale),
                               mean.data<T>(), rstd.data<T>(), grad.data<T>(), grad_input.data<T>(),
                               result.weight.data<T>(), result.bias.data<T>());
    });
  }
  copy_(result.input, grad_input, where);
  return result;
}

}  // namespace ringrad::kernels
