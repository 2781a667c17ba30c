#include "ringrad/kernels/elementwise/elementwise_binary_loops.h"

namespace ringrad::kernels {

#include "ringrad/kernels/elementwise/elementwise_binary_rows.inc"

}  // namespace ringrad::kernels
