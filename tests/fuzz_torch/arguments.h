// Reads the arguments of a step, and makes operators of plain functions.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringrad/autograd/movement.h"
#include "ringrad/tests/fuzz_torch/operators.h"

namespace ringrad::fuzz_torch {

using In = const std::vector<Tensor>&;
using Arguments = const nlohmann::json&;

using Unary = Tensor (*)(const Tensor& x, Where where);
using Binary = Tensor (*)(const Tensor& a, const Tensor& b, Where where);
using WithNumber = Tensor (*)(const Tensor& a, Scalar b, Where where);
using Reduce = Tensor (*)(const Tensor& x, const Shape& axes, bool keepdim, Where where);

inline Operator of(Unary f) {
  return [f](In in, Arguments) { return f(in[0], Where::current()); };
}
inline Operator of(Binary f) {
  return [f](In in, Arguments) { return f(in[0], in[1], Where::current()); };
}

inline Shape shape_of(Arguments extents) {
  Shape shape;
  for (const std::int64_t extent : extents) shape.push_back(extent);
  return shape;
}

inline std::optional<std::int64_t> whole_or_none(Arguments number) {
  if (number.is_null()) return {};
  return number.get<std::int64_t>();
}

inline Operator of(Reduce f) {
  return [f](In in, Arguments with) {
    return f(in[0], shape_of(with["axes"]), with["keepdim"], Where::current());
  };
}

inline Scalar scalar_of(Arguments number) {
  if (number.is_boolean()) return number.get<bool>();
  return number.is_number_integer() ? Scalar(number.get<std::int64_t>())
                                    : Scalar(number.get<double>());
}

inline Operator of(WithNumber f) {
  return
      [f](In in, Arguments with) { return f(in[0], scalar_of(with["number"]), Where::current()); };
}

inline DType dtype_of_name(Arguments text) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (name(static_cast<DType>(i)) == text.get<std::string>()) return static_cast<DType>(i);
  throw std::invalid_argument("no dtype is named " + text.get<std::string>());
}

/// int64, on the default device; of one axis unless the arguments have a shape.
inline Tensor indices_of(Arguments with) {
  const std::vector<std::int64_t> values = with["indices"];
  const Shape shape = with.contains("shape") ? shape_of(with["shape"])
                                             : Shape{static_cast<std::int64_t>(values.size())};
  const Tensor indices = empty(shape, {.dtype = DType::int64, .device = Device("cpu")});
  std::copy(values.begin(), values.end(), indices.data<std::int64_t>());
  return to(indices, default_device());
}

}  // namespace ringrad::fuzz_torch
