// What the reductions do to two values, on the CPU and on GPUs. Private to parallel/comm.

#pragma once

#include <limits>
#include <type_traits>

#include "ringrad/parallel/comm/common/reduce_op.h"

namespace ringrad {

// Overflow of signed integers is undefined in C++ but must not be here: sums wrap as unsigned.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;

// One NaN for all: of two NaNs x86 takes the first, and a compiler may exchange them in one part of
// a loop and not in another; GPUs have one of their own. So the bits of a sum depend on its order
// alone.
template <class T>
constexpr T with_one_nan(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value != value ? std::numeric_limits<T>::quiet_NaN() : value;
  else
    return value;
}

struct Sum {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return with_one_nan(static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b)));
  }
};
struct Product {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return with_one_nan(static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b)));
  }
};
// Comparisons with NaN are false: a NaN in `b` is chosen by the comparison, one in `a` by a != a.
struct Min {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return ((a != a) | (a < b)) ? a : b;
  }
};
struct Max {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return ((a != a) | (a > b)) ? a : b;
  }
};

/// Returns body(functor). The functor of a mean is Sum: the caller divides.
template <class Body>
auto dispatch_reduce(ReduceOp op, Body body) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      return body(Sum{});
    case ReduceOp::product:
      return body(Product{});
    case ReduceOp::min:
      return body(Min{});
    case ReduceOp::max:
      break;
  }
  return body(Max{});
}

}  // namespace ringrad
