#include "ringrad/kernels/elementwise/elementwise_unary_loops.h"

namespace ringrad::kernels {

#include "ringrad/kernels/elementwise/elementwise_unary_rows.inc"

}  // namespace ringrad::kernels
