#include "ringrad/kernels/norm/row_norm.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/norm/norm_cpu.h"
#include "ringrad/kernels/norm/norm_operands.h"

namespace ringrad::kernels {
namespace {

using namespace norm_operands;

void check_rows(const char* operation, const Tensor& x, Where where) {
  check_floating(operation, x, where);
  RINGRAD_CHECK(x.dims() >= 1, ShapeError, where, operation,
                ": x must have at least one axis; got shape ", x.shape());
}

void check_row_vector(const char* operation, const char* what, const Tensor& vector,
                      const Tensor& x, Where where) {
  if (!vector.defined()) return;
  check_floating(operation, vector, where);
  check_same_device(operation, x, vector, where);
  RINGRAD_CHECK(vector.shape() == Shape{x.shape().back()}, ShapeError, where, operation, ": ", what,
                " must have the extent of the last axis; got ", vector.shape(), " for x ",
                x.shape());
}

Shape without_last_axis(const Shape& shape) {
  return Shape(std::span(shape.begin(), shape.end() - 1));
}

// kCentred: layer norm.
template <bool kCentred>
NormResult normalize(const char* operation, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, double eps, Where where) {
  check_rows(operation, x, where);
  check_row_vector(operation, "weight", weight, x, where);
  check_row_vector(operation, "bias", bias, x, where);
  const DType dtype = statistics_dtype(x);
  const Shape rows = without_last_axis(x.shape());
  const NormResult result{result_for(x, x.shape(), x.dtype(), where),
                          kCentred ? result_for(x, rows, dtype, where) : Tensor(),
                          result_for(x, rows, dtype, where)};
  if (x.numel() == 0) return result;
  if (x.device().is_cuda()) {
    cuda::row_norm<kCentred>(contiguous(x, where), weight, bias, eps, result, where);
    return result;
  }
  const Tensor in = operand(x, dtype, where), y = unrounded(result.output, dtype, where);
  const Tensor scale = operand(weight, dtype, where), offset = operand(bias, dtype, where);
  dispatch_math(dtype, [&]<class T>() {
    cpu::row_norm<kCentred>(rows.numel(), x.shape().back(), static_cast<T>(eps), in.data<T>(),
                            data_or_null<T>(scale), data_or_null<T>(offset), y.data<T>(),
                            data_or_null<T>(result.mean), result.rstd.data<T>());
  });
  copy_(result.output, y, where);
  return result;
}

template <bool kCentred>
NormGradients differentiate(const char* operation, const Tensor& grad_output, const Tensor& x,
                            const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                            Where where) {
  check_rows(operation, x, where);
  check_row_vector(operation, "weight", weight, x, where);
  check_gradient(operation, grad_output, x, where);
  const Shape rows = without_last_axis(x.shape()), vector{x.shape().back()};
  RINGRAD_CHECK((!kCentred || mean.shape() == rows) && rstd.shape() == rows, ShapeError, where,
                operation, kCentred ? ": mean and rstd" : ": rstd", " must have one value per row ",
                rows, "; got ", kCentred ? concat(mean.shape(), " and ") : "", rstd.shape());
  const DType dtype = statistics_dtype(x);
  const NormGradients result{result_for(x, x.shape(), x.dtype(), where),
                             result_for(x, vector, dtype, where),
                             kCentred ? result_for(x, vector, dtype, where) : Tensor()};
  if (x.numel() == 0) return result;
  const NormResult statistics{{}, operand(mean, dtype, where), operand(rstd, dtype, where)};
  if (x.device().is_cuda()) {
    cuda::row_norm_backward<kCentred>(contiguous(grad_output, where), contiguous(x, where), weight,
                                      statistics, result, where);
    return result;
  }
  const Tensor in = operand(x, dtype, where), grad = operand(grad_output, dtype, where);
  const Tensor scale = operand(weight, dtype, where),
               grad_input = unrounded(result.input, dtype, where);
  dispatch_math(dtype, [&]<class T>() {
    cpu::row_norm_backward<kCentred>(
        rows.numel(), x.shape().back(), in.data<T>(), data_or_null<T>(scale),
        data_or_null<T>(statistics.mean), statistics.rstd.data<T>(), grad.data<T>(),
        grad_input.data<T>(), result.weight.data<T>(), data_or_null<T>(result.bias));
  });
  copy_(result.input, grad_input, where);
  return result;
}

}  // namespace

NormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      Where where) {
  return normalize<true>("layer_norm", x, weight, bias, eps, where);
}

NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  return normalize<false>("rms_norm", x, weight, {}, eps, where);
}

NormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& rstd, Where where) {
  return differentiate<true>("layer_norm_backward", grad_output, x, weight, mean, rstd, where);
}

NormGradients rms_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                const Tensor& rstd, Where where) {
  return differentiate<false>("rms_norm_backward", grad_output, x, weight, {}, rstd, where);
}

}  // namespace ringrad::kernels
