// Decides which indices are valid: the check and the kernels after it must decide alike. Private to
// kernels/.
//
// On a GPU, nothing waits for the check. A kernel that looks something up runs even if the check
// found a bad index, so it calls in_bounds() before it accesses memory.

#pragma once

#include <cstdint>

#include "ringrad/core/gpu/device_fault.h"
#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// 0 <= index < bound. As an unsigned number, a negative index is larger than every bound, so one
/// comparison is enough.
constexpr bool in_bounds(std::int64_t index, std::int64_t bound) {
  return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(bound);
}

struct IsValid {
  std::int64_t bound;
  bool some_ignored;
  std::int64_t ignored;

  constexpr bool operator()(std::int64_t index) const {
    return in_bounds(index, bound) | (some_ignored & (index == ignored));
  }
};

namespace cuda {

/// Queues the check. If an index is bad, the check completes `note` with the value and position of
/// the first bad one. The note becomes the device's fault (core/gpu/device_fault.h) unless the
/// device already has one.
///
/// REQUIRES: indices is contiguous, int32 or int64
void check_indices(const Tensor& indices, const IsValid& is_valid, const BadIndex& note);

}  // namespace cuda
}  // namespace ringrad::kernels
