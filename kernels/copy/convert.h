// Converts one element to another dtype, as copy.h specifies, on the CPU and in GPU kernels.

#pragma once

#include <cstdint>
#include <type_traits>

#include "ringrad/core/dtype.h"

namespace ringrad::kernels {

template <class To, class From>
constexpr To convert(From value) {
  const auto number = static_cast<MathType<From>>(value);
  if constexpr (std::is_same_v<To, bool>) {
    return number != 0;
  } else if constexpr (std::is_same_v<To, std::uint8_t> && !std::is_integral_v<From>) {
    // Goes through int32, so that -1.0 becomes 255 on every machine, as the integer -1 does.
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(number));
  } else {
    return To(static_cast<MathType<To>>(number));
  }
}

}  // namespace ringrad::kernels
