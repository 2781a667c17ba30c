#pragma once

// The cost of a launch alone.

#include "ringrad/core/base/device.h"

namespace ringrad::bench {

/// Launches one thread that does nothing, on the current stream of `device`.
void launch_empty_kernel(Device device);

}  // namespace ringrad::bench
