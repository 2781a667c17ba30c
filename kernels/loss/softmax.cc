#include "ringrad/kernels/loss/softmax.h"

#include "ringrad/kernels/copy/dense.h"

namespace ringrad::kernels {
namespace {

// The implementations of one operator on each kind of device.
struct Forward {
  void (*cpu)(const Tensor& x, int axis, const Tensor& y);
  void (*cuda)(const Tensor& x, int axis, const Tensor& y, Where where);
};
struct Backward {
  void (*cpu)(const Tensor& grad_output, const Tensor& y, int axis, const Tensor& grad_input);
  void (*cuda)(const Tensor& grad_output, const Tensor& y, int axis, const Tensor& grad_input,
               Where where);
};

Tensor run(const char* operation, Forward kernel, const Tensor& x, std::int64_t axis, Where where) {
  check_floating(operation, x, where);
  const int normalized = normalize_axis(operation, axis, x.dims(), where);
  const Tensor input = dense(x, where);
  const Tensor y = empty_like(input, where);
  if (x.device().is_cuda())
    kernel.cuda(input, normalized, y, where);
  else
    kernel.cpu(input, normalized, y);
  return y;
}

Tensor run_backward(const char* operation, Backward kernel, const Tensor& grad_output,
                    const Tensor& y, std::int64_t axis, Where where) {
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
    kernel.cuda(grad, output, normalized, grad_input, where);
  else
    kernel.cpu(grad, output, normalized, grad_input);
  return grad_input;
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis, Where where) {
  return run("softmax", {cpu::softmax, cuda::softmax}, x, axis, where);
}

Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis,
                        Where where) {
  return run_backward("softmax_backward", {cpu::softmax_backward, cuda::softmax_backward},
                      grad_output, y, axis, where);
}

Tensor log_softmax(const Tensor& x, std::int64_t axis, Where where) {
  return run("log_softmax", {cpu::log_softmax, cuda::log_softmax}, x, axis, where);
}

Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis,
                            Where where) {
  return run_backward("log_softmax_backward",
                      {cpu::log_softmax_backward, cuda::log_softmax_backward}, grad_output, y, axis,
                      where);
}

}  // namespace ringrad::kernels
