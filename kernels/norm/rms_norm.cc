#include "ringrad/kernels/norm/rms_norm.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/norm/rms_norm_cpu.h"
#include "ringrad/kernels/norm/rms_norm_cuda.h"
#include "ringrad/kernels/norm/row_norm.h"

namespace ringrad::kernels {

using namespace row_norm;

RMSNormResult rms_norm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  check_input("rms_norm", x, where);
  check_vector("rms_norm", "weight", weight, x, where);
  const DType dtype = statistics_dtype(x);
  const Shape rows = without_last_axis(x.shape());
  const RMSNormResult result{result_for(x, x.shape(), x.dtype(), where),
                             result_for(x, rows, dtype, where)};
  if (x.numel() == 0) return result;
  if (x.device().is_cuda()) {
    cuda::rms_norm(contiguous(x, where), weight, eps, result, where);
    return result;
  }
  const Tensor in = operand(x, dtype, where), y = unrounded(result.output, dtype, where),
               scale = operand(weight, dtype, where);
  dispatch_statistics(dtype, [&]<class T>() {
    cpu::rms_norm(rows.numel(), x.shape().back(), static_cast<T>(eps), in.data<T>(),
                  data_or_null<T>(scale), y.data<T>(), result.rstd.data<T>());
  });
  copy_(result.output, y, where);
  return result;
}

RMSNormGradients rms_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                   const Tensor& rstd, Where where) {
  constexpr const char* kOperation = "rms_norm_backward";
  check_input(kOperation, x, where);
  check_vector(kOperation, "weight", weight, x, where);
  check_gradient(kOperation, grad_output, x, where);
  const Shape rows = without_last_axis(x.shape());
  RINGRAD_CHECK(rstd.shape() == rows, ShapeError, where, kOperation,
                ": rstd must have one value per row ", rows, "; got ", rstd.shape());
  const DType dtype = statistics_dtype(x);
  const RMSNormGradients result{result_for(x, x.shape(), x.dtype(), where),
                                result_for(x, {x.shape().back()}, dtype, where)};
  if (x.numel() == 0) return result;
  const Tensor rstds = operand(rstd, dtype, where);
  if (x.device().is_cuda()) {
    cuda::rms_norm_backward(contiguous(grad_output, where), contiguous(x, where), weight, rstds,
                            result, where);
    return result;
  }
  const Tensor in = operand(x, dtype, where), grad = operand(grad_output, dtype, where),
               scale = operand(weight, dtype, where),
               grad_input = unrounded(result.input, dtype, where);
  dispatch_statistics(dtype, [&]<class T>() {
    cpu::rms_norm_backward(rows.numel(), x.shape().back(), in.data<T>(), data_or_null<T>(scale),
                           rstds.data<T>(), grad.data<T>(), grad_input.data<T>(),
                           result.weight.data<T>());
  });
  copy_(result.input, grad_input, where);
  return result;
}

}  // namespace ringrad::kernels
