// The operands of the tests of elementwise operators.

#pragma once

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

inline constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16,
                                    DType::bfloat16};
inline constexpr DType kNumbers[] = {DType::float32,  DType::float64, DType::float16,
                                     DType::bfloat16, DType::int32,   DType::int64,
                                     DType::uint8};
inline constexpr DType kAll[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                                 DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

// Shapes on both sides of every path: one element, none, a block and its remainder, several
// threads.
inline const Shape kShapes[] = {{},   {1},       {0},          {3, 0}, {7},
                                {17}, {3, 5, 2}, {2, 3, 4, 5}, {1025}, {33'001}};

// uint8 arithmetic wraps around, so its operands are limited such that no formula leaves [0, 255].
inline Tensor operand(Random& random, const Shape& shape, DType dtype, double low, double high) {
  if (is_floating(dtype)) return random.tensor(shape, low, high, dtype);
  const Tensor x = random.tensor(shape, DType::int64);
  if (dtype != DType::uint8) return kernels::cast(x, dtype);
  return kernels::cast(kernels::unary(ops::Clamp(1, 2), x), dtype);
}

inline Tensor doubles(std::initializer_list<double> values) {
  return from_values(std::span(values.begin(), values.size()),
                     {static_cast<std::int64_t>(values.size())});
}

}  // namespace ringrad::testing
