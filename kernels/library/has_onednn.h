// Whether the library was built with oneDNN. Without it (--define=onednn=none), matrix products and
// convolutions in float32 run Ringrad's own loops, which are slower and need nothing.

#pragma once

#ifndef RINGRAD_ONEDNN
#define RINGRAD_ONEDNN 1
#endif

namespace ringrad::kernels {

inline constexpr bool kHasOneDnn = RINGRAD_ONEDNN != 0;

}  // namespace ringrad::kernels
