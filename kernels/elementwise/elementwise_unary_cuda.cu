#include "ringrad/kernels/elementwise/elementwise_unary_kernels.cuh"
#include "ringrad/kernels/elementwise/elementwise_unary_ops.h"

namespace ringrad::kernels::cuda {

#include "ringrad/kernels/elementwise/elementwise_unary_rows.inc"

}  // namespace ringrad::kernels::cuda
