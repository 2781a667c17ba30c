#include "ringrad/kernels/norm/rms_norm_cuda.h"
#include "ringrad/kernels/norm/row_norm.cuh"
#include "ringrad/kernels/norm/row_norm_backward.cuh"

namespace ringrad::kernels::cuda {

void rms_norm(const Tensor& x, const Tensor& weight, double eps, const RMSNormResult& result,
              Where where) {
  row_norm<false>("rms_norm", x, weight, {}, eps, result.output, {}, result.rstd, where);
}

void rms_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                       const Tensor& rstd, const RMSNormGradients& result, Where where) {
  row_norm_backward<false>("rms_norm_backward", grad_output, x, weight, {}, rstd, result.input,
                           result.weight, {}, where);
}

}  // namespace ringrad::kernels::cuda
