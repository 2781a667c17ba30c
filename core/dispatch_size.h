// The unsigned integer of an element's size. Code that moves elements without reading their values
// is compiled for these four types instead of eight.

#pragma once

#include <cstddef>
#include <cstdint>

namespace ringrad {

/// Calls body.operator()<T>() with the unsigned integer of `bytes` bytes.
/// REQUIRES: bytes is 1, 2, 4 or 8
template <class Body>
decltype(auto) dispatch_size(std::size_t bytes, Body&& body) {
  if (bytes == 1) return body.template operator()<std::uint8_t>();
  if (bytes == 2) return body.template operator()<std::uint16_t>();
  if (bytes == 4) return body.template operator()<std::uint32_t>();
  return body.template operator()<std::uint64_t>();
}

}  // namespace ringrad
