#include "ringrad/kernels/norm/layer_norm.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/norm/layer_norm_cpu.h"
#include "ringrad/kernels/norm/layer_norm_cuda.h"

namespace ringrad::kernels {
namespace {

DType statistics_dtype(const Tensor& x) {
  return x.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

void check_input(const char* operation, const Tensor& x, Where where) {
  check_floating(operation, x, where);
  RINGRAD_CHECK(x.dims() >= 1, ShapeError, where, operation,
                ": x must have at least one axis; got shape ", x.shape());
}

void check_vector(const char* operation, const char* what, const Tensor& vector, const Tensor& x,
                  Where where) {
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

/// A result for x. It is zeros if x is empty, since kernels never see an empty x.
Tensor result_for(const Tensor& x, const Shape& shape, DType dtype, Where where) {
  const Options options{.dtype = dtype, .device = x.device()};
  return x.numel() > 0 ? empty(shape, options, where) : zeros(shape, options, where);
}

/// `result` itself if it has the dtype of the arithmetic, else memory for values to be rounded into
/// it.
Tensor unrounded(const Tensor& result, DType dtype, Where where) {
  return result.dtype() == dtype ? result : empty_like(result, dtype, where);
}

/// x, contiguous, in the dtype of the statistics; an undefined tensor stays undefined.
Tensor operand(const Tensor& x, DType dtype, Where where) {
  return x.defined() ? contiguous(cast(x, dtype, where), where) : x;
}

template <class T>
const T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

/// Calls body.operator()<T>() with T = float or double.
template <class Body>
void dispatch_statistics(DType dtype, Body body) {
  if (dtype == DType::float64)
    body.template operator()<double>();
  else
    body.template operator()<float>();
}

}  // namespace

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
  RINGRAD_CHECK(grad_output.shape() == x.shape(), ShapeError, where, kOperation,
                ": the gradient must have the shape of x ", x.shape(), "; got ",
                grad_output.shape());
  check_same_dtype(kOperation, x, grad_output, where);
  check_same_device(kOperation, x, grad_output, where);
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
