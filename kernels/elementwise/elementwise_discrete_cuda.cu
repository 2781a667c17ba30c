#include "ringrad/kernels/elementwise/elementwise_binary_kernels.cuh"
#include "ringrad/kernels/elementwise/elementwise_discrete_ops.h"
#include "ringrad/kernels/elementwise/elementwise_scalar_ops.h"
#include "ringrad/kernels/elementwise/elementwise_unary_kernels.cuh"

namespace ringrad::kernels::cuda {

#include "ringrad/kernels/elementwise/elementwise_discrete_rows.inc"

}  // namespace ringrad::kernels::cuda
