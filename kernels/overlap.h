// The relative position of tensors in memory, for operations that write into existing tensors.
//
// Addresses are compared, not storages: a slice of an arena has its own storage.

#pragma once

#include <functional>

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// One past the last byte of x. REQUIRES: x is not empty
inline const std::byte* memory_end(const Tensor& x) {
  std::int64_t last = 0;
  for (int i = 0; i < x.dims(); ++i) last += (x.shape()[i] - 1) * x.strides()[i];
  return x.raw_data() + (last + 1) * static_cast<std::int64_t>(size_bytes(x.dtype()));
}

/// True if the ranges that a and b span have a byte in common. REQUIRES: neither is empty
inline bool memory_overlaps(const Tensor& a, const Tensor& b) {
  constexpr std::less<const std::byte*> before;
  return before(a.raw_data(), memory_end(b)) && before(b.raw_data(), memory_end(a));
}

/// True if every element of a is the same element of b.
inline bool same_elements(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

}  // namespace ringrad::kernels
