// order_key: an element as an unsigned number whose order is the order of sorting.
//
//     integers    flip the sign bit, so that negative numbers come first
//     floats      flip the sign bit of positive numbers and all bits of negative ones, whose
//                 magnitudes then grow backwards
//
// A NaN is larger than any number, and all NaNs are equal, as are 0 and -0. Compiled for CPUs and
// GPUs.

#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "ringrad/core/dtype.h"

namespace ringrad::kernels {

template <class T>
using OrderKey = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

/// The bits of infinity.
template <class T>
inline constexpr OrderKey<T> kInfinityBits = std::is_same_v<T, double>
                                                 ? static_cast<OrderKey<T>>(0x7ff0'0000'0000'0000)
                                             : std::is_same_v<T, float>
                                                 ? static_cast<OrderKey<T>>(0x7f80'0000)
                                             : std::is_same_v<T, float16>
                                                 ? static_cast<OrderKey<T>>(0x7c00)
                                                 : static_cast<OrderKey<T>>(0x7f80);

template <class T>
constexpr OrderKey<T> order_key(T x) {
  using Key = OrderKey<T>;
  constexpr Key kSign = static_cast<Key>(Key{1} << (8 * sizeof(T) - 1));
  const Key bits = std::bit_cast<Key>(x);
  if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> ? static_cast<Key>(bits ^ kSign) : bits;
  } else {
    const Key magnitude = static_cast<Key>(bits & static_cast<Key>(~kSign));
    const Key key = bits & kSign ? static_cast<Key>(~bits) : static_cast<Key>(bits | kSign);
    const Key number = magnitude == 0 ? kSign : key;
    return magnitude > kInfinityBits<T> ? static_cast<Key>(~Key{0}) : number;
  }
}

/// The same for the order from large to small, if `descending`.
template <class T>
constexpr OrderKey<T> order_key(T x, bool descending) {
  return static_cast<OrderKey<T>>(order_key(x) ^ (descending ? ~OrderKey<T>{0} : OrderKey<T>{0}));
}

/// The number of elements of a sorted line that are below `value`, or, if `right`, not above it.
template <class T>
constexpr std::int64_t place_in(const T* line, std::int64_t n, T value, bool right) {
  const OrderKey<T> wanted = order_key(value);
  std::int64_t begin = 0, end = n;  // the elements before `begin` count, those from `end` on do not
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    const OrderKey<T> key = order_key(line[middle]);
    if (key < wanted || (right && key == wanted))
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

}  // namespace ringrad::kernels
