#include "ringrad/kernels/elementwise/elementwise_activation_ops.h"
#include "ringrad/kernels/elementwise/elementwise_unary_kernels.cuh"

namespace ringrad::kernels::cuda {

#include "ringrad/kernels/elementwise/elementwise_activation_rows.inc"

}  // namespace ringrad::kernels::cuda
