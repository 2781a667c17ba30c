#include "ringrad/core/dtype.h"

#include <ostream>

namespace ringrad {

std::string_view name(DType dtype) {
  constexpr std::string_view kNames[kNumDTypes] = {"float32", "float64", "float16", "bfloat16",
                                                   "int32",   "int64",   "uint8",   "bool"};
  return kNames[static_cast<int>(dtype)];
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a)) {
    if (a == DType::float64 || b == DType::float64) return DType::float64;
    return DType::float32;  // float32 with a 16-bit type, or the two 16-bit types together
  }
  if (a == DType::bool_) return b;
  if (b == DType::bool_) return a;
  return size_bytes(a) > size_bytes(b) ? a : b;
}

void check_floating(const char* operation, DType dtype, Where where) {
  RINGRAD_CHECK(is_floating(dtype), DTypeError, where, operation, ": needs a floating dtype; got ",
                dtype);
}

void check_same_dtype(const char* operation, DType a, DType b, Where where) {
  RINGRAD_CHECK(a == b, DTypeError, where, operation, ": dtypes must be equal; got ", a, " and ",
                b);
}

void check_index(const char* operation, DType dtype, Where where) {
  RINGRAD_CHECK(dtype == DType::int32 || dtype == DType::int64, DTypeError, where, operation,
                ": needs int32 or int64 indices; got ", dtype);
}

}  // namespace ringrad
