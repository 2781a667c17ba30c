// Where tensors lie in memory relative to each other, for operations that write into existing
// tensors.
//
// Addresses count, not storages: a slice of an arena has a storage of its own.

#pragma once

#include <functional>

#include "core/tensor.h"
#include "kernels/loop_nest.h"

namespace ringrad::kernels {

/// One past the last byte of x. REQUIRES: x has an element
inline const std::byte* memory_end(const Tensor& x) {
  std::int64_t last = 0;
  for (int i = 0; i < x.dims(); ++i) last += (x.shape()[i] - 1) * x.strides()[i];
  return x.raw_data() + (last + 1) * static_cast<std::int64_t>(size_bytes(x.dtype()));
}

/// True if the ranges that a and b span have a byte in common. REQUIRES: both have an element
inline bool memory_overlaps(const Tensor& a, const Tensor& b) {
  constexpr std::less<const std::byte*> before;
  return before(a.raw_data(), memory_end(b)) && before(b.raw_data(), memory_end(a));
}

/// True if each element of a is the same element of b.
inline bool same_elements(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

/// True if two elements of x are one place in memory: some axis steps no further than all the axes
/// inside of it reach.
inline bool repeats_elements(const Tensor& x) {
  if (x.is_contiguous()) return false;
  const LoopNest<1> nest = make_loop_nest<1>(x.shape(), {&x.strides()});
  std::int64_t reach = 0;
  for (int i = nest.axes - 1; i >= 0; --i) {
    const auto axis = static_cast<unsigned>(i);
    if (nest.strides[axis][0] <= reach) return true;
    reach += nest.strides[axis][0] * (nest.extents[axis] - 1);
  }
  return false;
}

}  // namespace ringrad::kernels
