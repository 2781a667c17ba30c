#include "ringrad/kernels/loss/softmax.h"

#include "ringrad/kernels/copy/dense.h"

namespace ringrad::kernels {
namespace {

// Calls the implementation for x's device.
template <auto kOnCpu, auto kOnCuda>
Tensor run(const char* operation, const Tensor& x, std::int64_t axis, Where where) {
  check_floating(operation, x, where);
  const int normalized = normalize_axis(operation, axis, x.dims(), where);
  const Tensor input = dense(x, where);
  const Tensor y = empty_like(input, where);
  if (x.device().is_cuda())
    kOnCuda(input, normalized, y, where);
  else
    kOnCpu(input, normalized, y);
  return y;
}

template <auto kOnCpu, auto kOnCuda>
Tensor run_backward(const char* operation, const Tensor& grad_output, const Tensor& y,
                    std::int64_t axis, Where where) {
  check_floating(operation, y, where);
  check_same_dtype(operation, grad_output, y, where);
  check_same_device(operation, grad_output, y, where);
  RINGRAD_CHECK(grad_output.shape() == y.shape(), ShapeError, where, operation,
                ": shapes must be equal; got grad_output ", grad_output.shape(), " and y ",
                y.shape());
  const int normalized = normalize_axis(operation, axis, y.dims(), where);
  const Tensor output = dense(y, where);
  const Tensor grad = in_order_of(grad_output, output, where);
  const Tensor grad_input = empty_like(output, where);
  if (y.device().is_cuda())
    kOnCuda(grad, output, normalized, grad_input, where);
  else
    kOnCpu(grad, output, normalized, grad_input);
  return grad_input;
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis, Where where) {
  return run<cpu::softmax, cuda::softmax>("softmax", x, axis, where);
}

Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis,
                        Where where) {
  return run_backward<cpu::softmax_backward, cuda::softmax_backward>("softmax_backward",
                                                                     grad_output, y, axis, where);
}

Tensor log_softmax(const Tensor& x, std::int64_t axis, Where where) {
  return run<cpu::log_softmax, cuda::log_softmax>("log_softmax", x, axis, where);
}

Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis,
                            Where where) {
  return run_backward<cpu::log_softmax_backward, cuda::log_softmax_backward>(
      "log_softmax_backward", grad_output, y, axis, where);
}

}  // namespace ringrad::kernels
