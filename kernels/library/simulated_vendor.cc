// Stands in for NVIDIA's libraries on simulated GPUs, which have none.

#include "ringrad/kernels/library/vendor.h"

namespace ringrad::kernels {

const std::string& vendor_missing(Provided) {
  static const std::string why = "simulated GPUs, which run our own kernels only";
  return why;
}

bool vendor::multiply(Device, DType, const GemmProblem&, const void*, const void*, const void*,
                      void*, Where) {
  return false;
}

bool vendor::convolution(const ConvolutionGeometry&, const Tensor&, const Tensor&, const Tensor&,
                         const Tensor&, Where) {
  return false;
}

bool vendor::convolution_backward_input(const ConvolutionGeometry&, const Tensor&, const Tensor&,
                                        const Tensor&, Where) {
  return false;
}

bool vendor::convolution_backward_weight(const ConvolutionGeometry&, const Tensor&, const Tensor&,
                                         const Tensor&, Where) {
  return false;
}

bool vendor::batch_norm(const BatchNormProblem&, Where) { return false; }
bool vendor::batch_norm_backward(const BatchNormProblem&, Where) { return false; }

bool vendor::attention(const AttentionForward&, Where) { return false; }
bool vendor::attention_backward(const AttentionBackward&, Where) { return false; }

void vendor::set_tf32(bool) {}
bool vendor::is_tf32() { return false; }

}  // namespace ringrad::kernels
