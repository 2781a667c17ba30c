#include "ringrad/kernels/norm/layer_norm.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/norm/layer_norm_cpu.h"
#include "ringrad/kernels/norm/layer_norm_cuda.h"
#include "ringrad/kernels/norm/row_norm.h"

namespace ringrad::kernels {

using namespace row_norm;

LayerNormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                           Where where) {
  check_input("layer_norm", x, where);
  check_vector("layer_norm", "weight", weight, x, where);
  check_vector("layer_norm", "bias", bias, x, where);
  const DType dtype = statistics_dtype(x);
  const Shape rows = without_last_axis(x.shape());
  const LayerNormResult result{result_for(x, x.shape(), x.dtype(), where),
                               result_for(x, rows, dtype, where),
                               result_for(x, rows, dtype, where)};
  if (x.numel() == 0) return result;
  if (x.device().is_cuda()) {
    cuda::layer_norm(contiguous(x, where), weight, bias, eps, result, where);
    return result;
  }
  const Tensor in = operand(x, dtype, where), y = unrounded(result.output, dtype, where);
  const Tensor scale = operand(weight, dtype, where), offset = operand(bias, dtype, where);
  dispatch_statistics(dtype, [&]<class T>() {
    cpu::layer_norm(rows.numel(), x.shape().back(), static_cast<T>(eps), in.data<T>(),
                    data_or_null<T>(scale), data_or_null<T>(offset), y.data<T>(),
                    result.mean.data<T>(), result.rstd.data<T>());
  });
  copy_(result.output, y, where);
  return result;
}

LayerNormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x,
                                       const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                                       Where where) {
  constexpr const char* kOperation = "layer_norm_backward";
  check_input(kOperation, x, where);
  check_vector(kOperation, "weight", weight, x, where);
  check_gradient(kOperation, grad_output, x, where);
  const Shape rows = without_last_axis(x.shape());
  RINGRAD_CHECK(mean.shape() == rows && rstd.shape() == rows, ShapeError, where, kOperation,
                ": mean and rstd must have one value per row ", rows, "; got ", mean.shape(),
                " and ", rstd.shape());
  const DType dtype = statistics_dtype(x);
  const Shape vector{x.shape().back()};
  const LayerNormGradients result{result_for(x, x.shape(), x.dtype(), where),
                                  result_for(x, vector, dtype, where),
                                  result_for(x, vector, dtype, where)};
  if (x.numel() == 0) return result;
  const Tensor means = operand(mean, dtype, where), rstds = operand(rstd, dtype, where);
  if (x.device().is_cuda()) {
    cuda::layer_norm_backward(contiguous(grad_output, where), contiguous(x, where), weight, means,
                              rstds, result, where);
    return result;
  }
  const Tensor in = operand(x, dtype, where), grad = operand(grad_output, dtype, where);
  const Tensor scale = operand(weight, dtype, where),
               grad_input = unrounded(result.input, dtype, where);
  dispatch_statistics(dtype, [&]<class T>() {
    cpu::layer_norm_backward(rows.numel(), x.shape().back(), in.data<T>(), data_or_null<T>(scale),
                             means.data<T>(), rstds.data<T>(), grad.data<T>(), grad_input.data<T>(),
                             result.weight.data<T>(), result.bias.data<T>());
  });
  copy_(result.input, grad_input, where);
  return result;
}

}  // namespace ringrad::kernels
