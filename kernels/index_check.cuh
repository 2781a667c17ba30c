// Which indices may be used: the one question that the check and the kernels after it must answer alike.
// Private to kernels/.
//
// On a GPU nobody waits for the check. A kernel that looks something up runs even where it found a bad
// index, and asks in_bounds() before it touches memory.

#pragma once

#include <cstdint>

namespace ringrad::kernels {

/// 0 <= index < bound. As an unsigned number a negative index is larger than every bound: one comparison
/// does it.
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
