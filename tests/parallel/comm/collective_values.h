// Inputs of collectives whose exact results are known, so that tests compare results bit by bit.
//
// A value depends on the rank and on the element by a hash. No number is zero, so a zeroed result
// shows; results differ from element to element, so a permuted one does; every rank's value counts,
// so a contribution that is lost or added twice cannot hide (CollectiveValuesTest shows each).
//
// Sums and products of up to kMostRanks terms are exact in every dtype and in every order:
//
//   sum, mean   whole numbers whose sum stays within the dtype's significand; all ranks have the
//               same sign at an element, which differs from element to element
//   product     floats: rank 0 has a full significand, the others powers of two. Integers: small
//               factors. uint8: odd numbers, whose product modulo 256 is never zero
//   min, max    whole numbers of either sign
//   bool        at three of four elements at most one rank differs from all others

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/core/transfer.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad::testing {

// What threads do does not depend on what they add.
#ifdef __SANITIZE_THREAD__
inline constexpr DType kAllDTypes[] = {DType::float32, DType::bfloat16};
#else
inline constexpr DType kAllDTypes[] = {DType::float32,  DType::float64, DType::float16,
                                       DType::bfloat16, DType::int32,   DType::int64,
                                       DType::uint8,    DType::bool_};
#endif

inline constexpr int kMostRanks = 8;

/// Enough elements for every fault above to show, in every dtype and operation.
inline constexpr std::int64_t kAmpleElements = 97;

/// The significand's bits in the smallest dtypes; in the others, as many as a sum needs.
inline int significand_bits(DType dtype) {
  if (dtype == DType::bfloat16 || dtype == DType::uint8) return 8;
  return dtype == DType::float16 ? 11 : 24;
}

/// A hash of the pair (splitmix64).
inline std::uint64_t mix(int rank, std::int64_t i) {
  std::uint64_t x = static_cast<std::uint64_t>(i) * 64 + static_cast<std::uint64_t>(rank) + 1;
  x *= 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

inline double sign(std::uint64_t hash) { return hash >> 63 ? -1 : 1; }

/// A factor of a product.
inline double factor(DType dtype, int rank, std::uint64_t hash) {
  if (dtype == DType::uint8) return static_cast<double>(3 + 2 * (hash % 127));
  if (!is_floating(dtype)) return sign(hash) * static_cast<double>(2 + hash % 6);
  if (rank > 0) return sign(hash) * (hash % 2 ? 2 : 0.5);
  const double half = std::exp2(significand_bits(dtype) - 1);
  return sign(hash) *
         (half + 1 + static_cast<double>(hash % static_cast<std::uint64_t>(half - 1))) / half;
}

/// The contribution of rank `rank` to element `i`.
///
/// REQUIRES: for an exact reduction, at most kMostRanks ranks
inline double contribution(DType dtype, ReduceOp op, int rank, std::int64_t i) {
  const std::uint64_t hash = mix(rank, i), common = mix(-1, i);
  if (dtype == DType::bool_) {
    const auto differs = common / 4 % (2 * kMostRanks);  // no rank, if the number exceeds the ranks
    const bool value = common % 4 ? differs == static_cast<unsigned>(rank) : hash % 2;
    return value == (op == ReduceOp::max);
  }
  if (op == ReduceOp::product) return factor(dtype, rank, hash);
  const bool adds = op == ReduceOp::sum || op == ReduceOp::mean;
  const int bits = significand_bits(dtype) - (adds ? 3 : 0);  // a sum has eight terms
  const std::uint64_t most = (std::uint64_t{1} << bits) - 1;
  const auto size = static_cast<double>(1 + hash % most);
  return dtype == DType::uint8 ? size : size * sign(adds ? common : hash);
}

/// `count` elements made by value(i), converted to `dtype`, on the default device.
template <class Value>
Tensor make_tensor(DType dtype, std::int64_t count, Value value) {
  const Tensor tensor = empty({count}, {.dtype = dtype, .device = Device()});
  dispatch_dtype(dtype, [&]<class T>() {
    T* const data = tensor.data<T>();
    for (std::int64_t i = 0; i < count; ++i) data[i] = static_cast<T>(value(i));
  });
  return to_device(tensor, default_device());
}

/// Contributions of a rank as a tensor; `first` is the position of its first element.
inline Tensor input_of(DType dtype, ReduceOp op, int rank, std::int64_t count,
                       std::int64_t first = 0) {
  return make_tensor(dtype, count,
                     [&](std::int64_t i) { return contribution(dtype, op, rank, first + i); });
}

/// The exact reduction at element `i`, before rounding to the dtype.
inline double reduced(DType dtype, ReduceOp op, int world_size, std::int64_t i) {
  double result = contribution(dtype, op, 0, i);
  for (int rank = 1; rank < world_size; ++rank) {
    const double term = contribution(dtype, op, rank, i);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::mean:
        result += term;
        break;
      case ReduceOp::product:
        result *= term;
        if (dtype == DType::uint8) result = std::fmod(result, 256);  // it wraps around
        break;
      case ReduceOp::min:
        result = std::min(result, term);
        break;
      case ReduceOp::max:
        result = std::max(result, term);
        break;
    }
  }
  return op == ReduceOp::mean ? result / world_size : result;
}

/// The reduction over all ranks; a mean of 16-bit floats is rounded from float32, as the definition
/// says.
inline Tensor reduced_tensor(DType dtype, ReduceOp op, int world_size, std::int64_t count,
                             std::int64_t first = 0) {
  return make_tensor(dtype, count,
                     [&](std::int64_t i) { return reduced(dtype, op, world_size, first + i); });
}

/// False for the combinations that the interface refuses: sums of bool, means of integers and bool.
inline bool is_reducible(DType dtype, ReduceOp op) {
  if (op == ReduceOp::mean) return is_floating(dtype);
  return op != ReduceOp::sum || dtype != DType::bool_;
}

}  // namespace ringrad::testing
