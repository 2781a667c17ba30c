// Work of known length, on the simulated clock.

#pragma once

#include "ringrad/core/base/device.h"

namespace ringrad::testing {

/// Queues a kernel on the device's current stream that only takes this long. REQUIRES: the device
/// is simulated
void keep_busy(Device device, double microseconds);

}  // namespace ringrad::testing
