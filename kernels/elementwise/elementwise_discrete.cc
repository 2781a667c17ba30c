#include "ringrad/kernels/elementwise/elementwise_binary_loops.h"
#include "ringrad/kernels/elementwise/elementwise_unary_loops.h"

namespace ringrad::kernels {

#include "ringrad/kernels/elementwise/elementwise_discrete_rows.inc"

}  // namespace ringrad::kernels
