// PerAxis: a number for each axis of a sequence, an image or a volume.
//
//     .stride = 2            the same along every axis
//     .stride = {1, 2}       vertical, horizontal

#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <ostream>

namespace ringrad {

/// The numbers of N axes, in the order of the axes.
template <std::size_t N, class T = std::int64_t>
struct PerAxis : std::array<T, N> {
  constexpr PerAxis(T every) { this->fill(every); }
  constexpr PerAxis(const std::array<T, N>& numbers) : std::array<T, N>(numbers) {}
  template <std::convertible_to<T>... Numbers>
  requires(N > 1 && sizeof...(Numbers) == N) constexpr PerAxis(Numbers... numbers)
      : std::array<T, N>{static_cast<T>(numbers)...} {}
};

/// "3", or "(3, 5)" if they differ.
template <std::size_t N, class T>
std::ostream& operator<<(std::ostream& out, const PerAxis<N, T>& numbers) {
  if (std::ranges::count(numbers, numbers[0]) == static_cast<std::ptrdiff_t>(N))
    return out << numbers[0];
  for (std::size_t axis = 0; axis < N; ++axis) out << (axis == 0 ? "(" : ", ") << numbers[axis];
  return out << ')';
}

}  // namespace ringrad
