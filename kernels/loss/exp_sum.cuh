// The sum of a row's exponentials, found in one pass without overflow.
//
//     maximum = max x,    sum = sum exp(x - maximum)
//
// When a larger maximum turns up, the sum so far is rescaled. Two parts of a row merge the same
// way, in any order. Private to kernels/*_cuda.cu.
// Paper: Milakov, Gimelshein 2018, arXiv:1805.02867, algorithm 3

#pragma once

#include <cmath>
#include <limits>

#include "ringrad/core/gpu/cuda.h"

namespace ringrad::kernels::cuda {

template <class Math>
inline constexpr Math kInfinity = std::numeric_limits<Math>::infinity();

/// exp(x - maximum), or 0 if both are -inf (an empty part).
template <class Math>
__device__ Math shifted_exp(Math x, Math maximum) {
  return std::exp(x - (maximum == -kInfinity<Math> ? Math{0} : maximum));
}

/// The largest of a number and V more. NaN is never the largest.
template <class Math, int V>
__device__ Math largest(Math of, const Math (&x)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i) of = x[i] > of ? x[i] : of;
  return of;
}

template <class Math>
struct ExpSum {
  Math maximum, sum;

  static __device__ ExpSum nothing() { return {-kInfinity<Math>, 0}; }

  /// Adds V more numbers, with one rescaling for all. A NaN is no maximum; it makes the sum NaN.
  template <int V>
  __device__ void take(const Math (&x)[V]) {
    const Math before = maximum;
    maximum = largest(maximum, x);
    sum *= shifted_exp(before, maximum);
#pragma unroll
    for (int i = 0; i < V; ++i) sum += shifted_exp(x[i], maximum);
  }
};

struct MergeExpSums {
  // The larger maximum's factor is 1 and omitted, so that the result does not depend on the order.
  template <class Math>
  __device__ ExpSum<Math> operator()(const ExpSum<Math>& a, const ExpSum<Math>& b) const {
    const bool ordered = a.maximum >= b.maximum;
    const ExpSum<Math> larger = ordered ? a : b, smaller = ordered ? b : a;
    return {larger.maximum,
            larger.sum + smaller.sum * shifted_exp(smaller.maximum, larger.maximum)};
  }
};

}  // namespace ringrad::kernels::cuda
