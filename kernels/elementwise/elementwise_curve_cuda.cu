#include "ringrad/kernels/elementwise/elementwise_binary_kernels.cuh"
#include "ringrad/kernels/elementwise/elementwise_curve_ops.h"
#include "ringrad/kernels/elementwise/elementwise_unary_kernels.cuh"

namespace ringrad::kernels::cuda {

#include "ringrad/kernels/elementwise/elementwise_curve_rows.inc"

}  // namespace ringrad::kernels::cuda
