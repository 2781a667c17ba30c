// A stream that stands still until the test says so.

#pragma once

#include <cstdint>

#include "ringrad/core/device.h"

namespace ringrad::testing {

/// Later work on the device's current stream waits until *word, which is pinned, is not 0, at most
/// 5 s.
void wait_for_word(Device device, const std::uint64_t* word);

}  // namespace ringrad::testing
