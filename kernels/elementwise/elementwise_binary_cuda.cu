#include "ringrad/kernels/elementwise/elementwise_binary_kernels.cuh"

namespace ringrad::kernels::cuda {

#include "ringrad/kernels/elementwise/elementwise_binary_rows.inc"

}  // namespace ringrad::kernels::cuda
