// Fills GPU memory with copies of one element. Private to core/.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"

namespace ringrad::cuda {

/// Sets all `count` elements of `bytes` bytes each to the one at `element`. Queued on the device's
/// current stream.
void fill_elements(void* to, Device device, std::int64_t count, const void* element,
                   std::size_t bytes, Where where);

}  // namespace ringrad::cuda
