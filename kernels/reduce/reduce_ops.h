// The reduction operations: how to map an element, how to merge two, and the start value; for the
// CPU and for GPU kernels. Private to kernels/.
//
//     Element    an element of x
//     Partial    the type in which a short run of elements is merged
//     Total      the type in which partials are merged: wider, for sums
//
// An operation that maps an element by its distance from a center takes the center as the second
// argument of map.

#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ringrad/core/dtype.h"

namespace ringrad::kernels::reduce_ops {

template <class T>
struct Sum {
  using Element = T;
  using Partial = std::conditional_t<is_floating(dtype_of<T>), AccumulateType<T>, std::uint64_t>;
  using Total = std::conditional_t<is_floating(dtype_of<T>), double, std::uint64_t>;
  static constexpr Total kStart = 0;

  static constexpr Partial map(T x) { return static_cast<Partial>(static_cast<MathType<T>>(x)); }
  template <class A>
  static constexpr A merge(A a, A b) {
    return a + b;
  }
};

// Distances are double, because the square of a float may overflow or vanish.
template <class T>
struct SumDeviations : Sum<T> {
  using Partial = double;
  static constexpr double map(T x, double center) { return static_cast<double>(x) - center; }
};

template <class T>
struct SumSquaredDeviations : SumDeviations<T> {
  static constexpr double map(T x, double center) {
    const double distance = SumDeviations<T>::map(x, center);
    return distance * distance;
  }
};

// A product may leave the range of its factors' dtype before it reaches a value inside that range,
// so partial products are wide from the start.
template <class T>
struct Product {
  using Element = T;
  using Total = std::conditional_t<is_floating(dtype_of<T>), double, std::uint64_t>;
  using Partial = Total;
  static constexpr Total kStart = 1;

  static constexpr Partial map(T x) { return static_cast<Partial>(x); }
  static constexpr Total merge(Total a, Total b) { return a * b; }
};

// x, or a NaN if `nan` is true. Uses bits, because GCC compiles a condition to jumps instead of
// vector code.
template <class T>
constexpr T nan_or([[maybe_unused]] bool nan, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    return std::bit_cast<T>(std::bit_cast<Bits>(x) | -static_cast<Bits>(nan));
  } else {
    return x;
  }
}

// A comparison with a NaN is false, so the choice returns b: a NaN in b wins by itself, and a NaN
// in a wins by nan_or.
template <class T>
struct Max {
  using Element = T;
  using Partial = MathType<T>;
  using Total = Partial;
  using Limits = std::numeric_limits<Partial>;
  static constexpr Total kStart = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();

  static constexpr Partial map(T x) { return static_cast<Partial>(x); }
  static constexpr Partial merge(Partial a, Partial b) { return nan_or(a != a, a > b ? a : b); }
};

template <class T>
struct Min : Max<T> {
  using typename Max<T>::Partial;
  using typename Max<T>::Limits;
  static constexpr Partial kStart = Limits::has_infinity ? Limits::infinity() : Limits::max();

  static constexpr Partial merge(Partial a, Partial b) { return nan_or(a != a, a < b ? a : b); }
};

template <class Op>
inline constexpr bool kHasCenter = requires(typename Op::Element x, typename Op::Partial center) {
  Op::map(x, center);
};

}  // namespace ringrad::kernels::reduce_ops
