#include "ringrad/kernels/elementwise/elementwise_unary_loops.h"

namespace ringrad::kernels {

#include "ringrad/kernels/elementwise/elementwise_scalar_rows.inc"

}  // namespace ringrad::kernels
