#include "ringrad/kernels/norm/layer_norm_cuda.h"
#include "ringrad/kernels/norm/row_norm.cuh"

namespace ringrad::kernels::cuda {

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                const LayerNormResult& result, Where where) {
  row_norm<true>("layer_norm", x, weight, bias, eps, result.output, result.mean, result.rstd,
                 where);
}

}  // namespace ringrad::kernels::cuda
