#include "ringrad/kernels/library/vendor.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "ringrad/kernels/library/attention_cudnn.h"
#include "ringrad/kernels/library/batch_norm_cudnn.h"
#include "ringrad/kernels/library/convolution_cudnn.h"
#include "ringrad/kernels/library/matmul_cublas.h"

namespace ringrad::kernels {
namespace {

std::atomic<bool>& tf32() {
  static std::atomic<bool> allowed = [] {
    const char* asked = std::getenv("RINGRAD_TF32");
    return asked && std::string_view(asked) == "1";
  }();
  return allowed;
}

// cuDNN supports float64 poorly and empty tensors not at all.
bool is_for_cudnn(const ConvolutionGeometry& g, const Tensor& x) {
  return x.dtype() != DType::float64 && g.B * g.C * g.pixels_of_x() * g.K > 0;
}

}  // namespace

const std::string& vendor_missing(Provided operation) {
  return operation == Provided::matmul ? cublas::missing() : cudnn::missing();
}

bool vendor::multiply(Device device, DType dtype, const GemmProblem& problem, const void* a,
                      const void* b, const void* bias, void* out, Where where) {
  return cublas::multiply(device, dtype, problem, a, b, bias, out, is_tf32(), where);
}

bool vendor::convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const Tensor& y, Where where) {
  return is_for_cudnn(g, x) && cudnn::convolution(g, x, weight, bias, y, is_tf32(), where);
}

bool vendor::convolution_backward_input(const ConvolutionGeometry& g, const Tensor& grad_y,
                                        const Tensor& weight, const Tensor& grad_x, Where where) {
  return is_for_cudnn(g, grad_y) &&
         cudnn::convolution_backward_input(g, grad_y, weight, grad_x, is_tf32(), where);
}

bool vendor::convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                         const Tensor& grad_y, const Tensor& grad_weight,
                                         Where where) {
  return is_for_cudnn(g, x) &&
         cudnn::convolution_backward_weight(g, x, grad_y, grad_weight, is_tf32(), where);
}

bool vendor::batch_norm(const BatchNormProblem& problem, Where where) {
  return cudnn::batch_norm(problem, where);
}

bool vendor::batch_norm_backward(const BatchNormProblem& problem, Where where) {
  return cudnn::batch_norm_backward(problem, where);
}

bool vendor::attention(const AttentionForward& call, Where where) {
  return cudnn::attention(call, where);
}

bool vendor::attention_backward(const AttentionBackward& call, Where where) {
  return cudnn::attention_backward(call, where);
}

void vendor::set_tf32(bool allowed) { tf32() = allowed; }
bool vendor::is_tf32() { return tf32(); }

}  // namespace ringrad::kernels
