#include "ringrad/kernels/elementwise/elementwise_unary_loops.h"

namespace ringrad::kernels {

#include "ringrad/kernels/elementwise/elementwise_activation_rows.inc"

}  // namespace ringrad::kernels
