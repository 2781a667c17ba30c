// Stops a stream until the test releases it.

#pragma once

#include <cstdint>

#include "ringrad/core/base/device.h"

namespace ringrad::testing {

/// Later work on the device's current stream waits until *word, in pinned memory, is not 0; at most
/// 5 s.
void wait_for_word(Device device, const std::uint64_t* word);

}  // namespace ringrad::testing
