// Inputs of collectives whose exact results are known: small whole numbers, whose sums and products
// are exact in every dtype and in every order, so that results are compared without a tolerance and
// a contribution lost or added twice cannot hide.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "core/transfer.h"
#include "parallel/comm/communicator.h"

namespace ringrad::testing {

inline constexpr DType kAllDTypes[] = {DType::float32,  DType::float64, DType::float16,
                                       DType::bfloat16, DType::int32,   DType::int64,
                                       DType::uint8,    DType::bool_};

/// What rank `rank` contributes at element `i`.
inline double contribution(DType dtype, ReduceOp op, int rank, std::int64_t i) {
  if (dtype == DType::bool_) return (i + rank) % 3 == 0;
  if (op == ReduceOp::product) return (i + rank) % 3 == 0 ? 2 : 1;
  const double value = static_cast<double>((i * 7 + rank * 3) % 5);
  return dtype == DType::uint8 ? value : value - 2;
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

/// The reduction over all ranks; a mean that is not a dtype's number is rounded from float32 for
/// the 16-bit floats, as the definition says.
inline Tensor reduced_tensor(DType dtype, ReduceOp op, int world_size, std::int64_t count,
                             std::int64_t first = 0) {
  return make_tensor(dtype, count,
                     [&](std::int64_t i) { return reduced(dtype, op, world_size, first + i); });
}

/// False for what the interface refuses: sums of bool, means of anything but floats.
inline bool is_reducible(DType dtype, ReduceOp op) {
  if (op == ReduceOp::mean) return is_floating(dtype);
  return op != ReduceOp::sum || dtype != DType::bool_;
}

}  // namespace ringrad::testing
