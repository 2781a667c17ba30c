#include "ringrad/kernels/norm/layer_norm_cuda.h"
#include "ringrad/kernels/norm/row_norm_backward.cuh"

namespace ringrad::kernels::cuda {

void layer_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const LayerNormGradients& result,
                         Where where) {
  row_norm_backward<true>("layer_norm_backward", grad_output, x, weight, mean, rstd, result.input,
                          result.weight, result.bias, where);
}

}  // namespace ringrad::kernels::cuda
