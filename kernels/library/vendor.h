// NVIDIA's libraries, if available; simulated_vendor.cc reports that simulated GPUs have none.
// Private to kernels/.

#pragma once

#include <cstdint>
#include <string>

#include "ringrad/core/base/device.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/problem/attention_call.h"
#include "ringrad/kernels/problem/batch_norm_problem.h"
#include "ringrad/kernels/problem/convolution_geometry.h"
#include "ringrad/kernels/problem/gemm_problem.h"

namespace ringrad::kernels {

/// The operators that the vendor's libraries also implement.
enum class Provided : std::uint8_t { matmul, conv2d, batch_norm, attention };

/// Why the vendor's kernels for an operation cannot be used; empty if they can. Loads the library.
const std::string& vendor_missing(Provided operation);

namespace vendor {

/// Computes the products of `problem` with cuBLASLt, on the device's current stream. Returns false,
/// having done nothing, if cuBLASLt does not support the problem; then our own kernels compute it.
///
/// REQUIRES: vendor_missing(Provided::matmul) is empty; batch, M, N, K > 0; bias has N values or
///           is null
bool multiply(Device device, DType dtype, const GemmProblem& problem, const void* a, const void* b,
              const void* bias, void* out, Where where);

/// Computes the convolution or its gradients with cuDNN. Returns false, having done nothing, if
/// cuDNN does not support it.
///
/// REQUIRES: vendor_missing(Provided::conv2d) is empty; tensors are as convolution_kernels.h
///           says; bias may be undefined
bool convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const Tensor& y, Where where);
bool convolution_backward_input(const ConvolutionGeometry& g, const Tensor& grad_y,
                                const Tensor& weight, const Tensor& grad_x, Where where);
bool convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                 const Tensor& grad_y, const Tensor& grad_weight, Where where);

/// Computes batch norm for training, or its gradients, with cuDNN. Returns false, having done
/// nothing, if cuDNN does not support it.
///
/// REQUIRES: vendor_missing(Provided::batch_norm) is empty; tensors are as BatchNormProblem says
bool batch_norm(const BatchNormProblem& problem, Where where);
bool batch_norm_backward(const BatchNormProblem& problem, Where where);

/// Computes attention, or its gradients, with cuDNN. Returns false, having done nothing, if cuDNN
/// does not support it.
///
/// REQUIRES: vendor_missing(Provided::attention) is empty
bool attention(const AttentionForward& call, Where where);
bool attention_backward(const AttentionBackward& call, Where where);

/// Lets float32 products and convolutions use TensorFloat-32: tensor cores, with inputs rounded to
/// 10 bits of mantissa. Off by default; RINGRAD_TF32=1 in the environment turns it on.
void set_tf32(bool allowed);
bool is_tf32();

}  // namespace vendor
}  // namespace ringrad::kernels
