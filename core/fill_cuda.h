// One element written again and again into a GPU's memory. Private to core/.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device.h"
#include "core/error.h"

namespace ringrad::cuda {

/// All `count` elements of `bytes` bytes each become the one that `element` points to. Queued on the device's current stream.
void fill_elements(void* to, Device device, std::int64_t count, const void* element,
                   std::size_t bytes, Where where);

}  // namespace ringrad::cuda
