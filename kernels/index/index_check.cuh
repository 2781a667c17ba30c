// Decides which indices are valid: the check and the kernels after it must decide alike. Private to
// kernels/.
//
// On a GPU, nothing waits for the check. A kernel that looks something up runs even if the check
// found a bad index, so it calls in_bounds() before it accesses memory.

#pragma once

#include <cstdint>

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

}  // namespace ringrad::kernels
