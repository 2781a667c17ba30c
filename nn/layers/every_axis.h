// A layer's option that applies to every axis, as an option of the operator. Private to nn/layers.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ringrad::nn {

/// Converts to the number, or to an array of it for an operator of several axes.
struct EveryAxis {
  std::int64_t number;

  operator std::int64_t() const { return number; }
  template <std::size_t N>
  operator std::array<std::int64_t, N>() const {
    std::array<std::int64_t, N> numbers;
    numbers.fill(number);
    return numbers;
  }
};

}  // namespace ringrad::nn
