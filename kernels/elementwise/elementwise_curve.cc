#include "ringrad/kernels/elementwise/elementwise_binary_loops.h"
#include "ringrad/kernels/elementwise/elementwise_unary_loops.h"

namespace ringrad::kernels {

#include "ringrad/kernels/elementwise/elementwise_curve_rows.inc"

}  // namespace ringrad::kernels
