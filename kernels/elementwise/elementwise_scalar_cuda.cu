#include "ringrad/kernels/elementwise/elementwise_binary_ops.h"
#include "ringrad/kernels/elementwise/elementwise_scalar_ops.h"
#include "ringrad/kernels/elementwise/elementwise_unary_kernels.cuh"

namespace ringrad::kernels::cuda {

#include "ringrad/kernels/elementwise/elementwise_scalar_rows.inc"

}  // namespace ringrad::kernels::cuda
