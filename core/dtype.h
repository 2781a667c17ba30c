// DType: the type of a tensor's elements, and the one switch from a DType to a C++ type.
//
//     dispatch_dtype(x.dtype(), [&]<class T>() { loop(x.data<T>()); });
//
// The lambda is instantiated once per dtype. Narrower sets (floating types only) keep binaries
// small and give the caller of an operator a DTypeError that lists what the operator takes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "ringrad/core/base/error.h"
#include "ringrad/core/half.h"

namespace ringrad {

/// The type of a tensor's elements.
enum class DType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int32,
  int64,
  uint8,
  bool_,
};

inline constexpr int kNumDTypes = 8;

/// "float32"; as PyTorch and NumPy spell it ("bool" for bool_).
std::string_view name(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

/// Bytes per element.
constexpr std::size_t size_bytes(DType dtype) {
  constexpr std::size_t kSizes[kNumDTypes] = {4, 8, 2, 2, 4, 8, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}

/// True for float32, float64, float16, bfloat16: the dtypes that can require a gradient.
constexpr bool is_floating(DType dtype) { return dtype <= DType::bfloat16; }

/// True for int32, int64, uint8; bool_ is neither floating nor integral.
constexpr bool is_integral(DType dtype) { return dtype >= DType::int32 && dtype < DType::bool_; }

/// The dtype of an operation on a and b, both with axes or both without, as in PyTorch: bool <
/// integers < floats; within a class the wider wins, uint8 with int32 gives int32, and float16 with
/// bfloat16 gives float32. If only some operands have axes, promote() of tensor.h decides.
DType promote(DType a, DType b);

/// Each dtype with its C++ element type, for lists of cases and of explicit instantiations.
#define RINGRAD_FOR_EACH_DTYPE(X) \
  X(float32, float)               \
  X(float64, double)              \
  X(float16, float16)             \
  X(bfloat16, bfloat16)           \
  X(int32, std::int32_t)          \
  X(int64, std::int64_t)          \
  X(uint8, std::uint8_t)          \
  X(bool_, bool)

/// The DType of a C++ element type: dtype_of<float> == DType::float32.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no DType has this element type");
  return DType();
}();
#define RINGRAD_DTYPE_OF(dtype, T) \
  template <>                      \
  inline constexpr DType dtype_of<T> = DType::dtype;
RINGRAD_FOR_EACH_DTYPE(RINGRAD_DTYPE_OF)
#undef RINGRAD_DTYPE_OF

/// The type of arithmetic on T: float for the 16-bit floats, else T itself.
template <class T>
using MathType =
    std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;

/// MathType as a DType.
constexpr DType math_dtype(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype;
}

/// The type in which sums of T accumulate: double for double, float for the other floats, int64 for
/// the rest.
template <class T>
using AccumulateType = std::conditional_t<
    std::is_same_v<T, double>, double,
    std::conditional_t<std::is_floating_point_v<MathType<T>>, float, std::int64_t>>;

/// Calls `body.operator()<T>()` with the element type of `dtype`.
template <class Body>
constexpr decltype(auto) dispatch_dtype(DType dtype, Body&& body) {
#define RINGRAD_CASE(dtype, T) \
  case DType::dtype:           \
    return body.template operator()<T>();
  switch (dtype) { RINGRAD_FOR_EACH_DTYPE(RINGRAD_CASE) }
#undef RINGRAD_CASE
  return body.template operator()<bool>();
}

/// The same for floating dtypes only; `dtype` must be one (check with check_floating first).
template <class Body>
decltype(auto) dispatch_floating(DType dtype, Body&& body) {
  if (dtype == DType::float32) return body.template operator()<float>();
  if (dtype == DType::float64) return body.template operator()<double>();
  if (dtype == DType::float16) return body.template operator()<float16>();
  RINGRAD_ASSERT(dtype == DType::bfloat16);
  return body.template operator()<bfloat16>();
}

/// The same for index dtypes, int32 and int64.
template <class Body>
decltype(auto) dispatch_index(DType dtype, Body&& body) {
  if (dtype == DType::int32) return body.template operator()<std::int32_t>();
  RINGRAD_ASSERT(dtype == DType::int64);
  return body.template operator()<std::int64_t>();
}

/// Throws DTypeError "<operation>: needs a floating dtype; got <dtype>".
void check_floating(const char* operation, DType dtype, Where where);

/// Throws DTypeError "<operation>: dtypes must be equal; got <a> and <b>".
void check_same_dtype(const char* operation, DType a, DType b, Where where);

/// Throws DTypeError "<operation>: needs int32 or int64 indices; got <dtype>".
void check_index(const char* operation, DType dtype, Where where);

}  // namespace ringrad
