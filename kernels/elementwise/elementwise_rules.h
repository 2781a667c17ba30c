// The rules for all elementwise operators: dtypes, shapes, memory. Private to
// kernels/elementwise.

#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/elementwise/elementwise_ops.h"

namespace ringrad::kernels::elementwise {

/// Up to this many float32 elements are computed directly, in less time than map() takes to start.
inline constexpr std::int64_t kTiny = 16;

/// True if there are at most kTiny elements and, in every tensor, element i is simply
/// data<float>()[i] and the host may read it.
template <class... Tensors>
bool are_tiny(Where where, const Tensor& x, const Tensors&... others) {
  const auto plain = [where](const Tensor& tensor) {
    return tensor.dtype(where) == DType::float32 && tensor.is_contiguous() &&
           tensor.device().is_cpu();
  };
  return x.numel(where) <= kTiny && plain(x) &&
         ((plain(others) && others.shape() == x.shape() && others.device() == x.device()) && ...);
}

/// The dtype in which a row of `domain` computes operands of `dtype`. Throws DTypeError for bool in
/// Domain::number, and for floats in Domain::integral.
DType compute_dtype(const char* operation, ops::Domain domain, DType dtype, Where where);

/// Throws DTypeError unless elements of `dtype` may be stored in `out`: never floats in integers,
/// nor numbers in bool.
void check_can_hold(const char* operation, const Tensor& out, DType dtype, Where where);

/// Throws ShapeError unless out has this shape, and as Tensor::check_writable().
void check_out(const char* operation, const Tensor& out, const Shape& shape, Where where);

/// The checks of an operation on a and b that writes into existing memory.
void check_into(const char* operation, ops::Domain domain, const Tensor& a, const Tensor& b,
                const Tensor& out, Where where);

/// A fresh tensor of `shape` with the memory order of the first dense tensor in `operands` that has
/// this shape.
Tensor empty_for(const Shape& shape, DType dtype, std::initializer_list<const Tensor*> operands,
                 Where where);

/// x itself if reading it is safe while out is written: the two do not overlap, or every element of
/// x is the same element of out. Otherwise a copy.
Tensor without_overlap(const Tensor& x, const Tensor& out, Where where);

/// The result type of a row for operands of type T: bool for predicates, else T.
template <class Op, class T, class Value>
using ResultOf =
    std::conditional_t<std::is_same_v<Value, bool> && Op::kDomain != ops::Domain::number, bool, T>;

template <class Op, class T>
using UnaryResult = ResultOf<Op, T, decltype(std::declval<const Op&>().forward(T()))>;
template <class Op, class T>
using BinaryResult = ResultOf<Op, T, decltype(Op::forward(T(), T()))>;

/// True for rows that compute float32 operands as they are.
template <class Op>
inline constexpr bool kComputesFloats =
    Op::kDomain != ops::Domain::logical&& Op::kDomain != ops::Domain::integral;

/// True for rows whose result is bool.
template <class Op>
inline constexpr bool kIsPredicate = [] {
  if constexpr (Op::kDomain == ops::Domain::integral)
    return false;
  else if constexpr (requires { Op::forward(0.f, 0.f); })
    return std::is_same_v<BinaryResult<Op, float>, bool>;
  else
    return std::is_same_v<UnaryResult<Op, float>, bool>;
}();

/// The two derivatives of a row as functors with one signature.
template <class Op>
struct BackwardA {
  template <class T>
  constexpr T operator()(T grad, T a, T b) const {
    return Op::backward_a(grad, a, b);
  }
};

template <class Op>
struct BackwardB {
  template <class T>
  constexpr T operator()(T grad, T a, T b) const {
    return Op::backward_b(grad, a, b);
  }
};

/// Calls body.operator()<T>() for the C++ types a domain computes in.
template <ops::Domain domain, class Body>
auto dispatch(DType math, Body&& body) {
  using ops::Domain;
  if constexpr (domain != Domain::logical && domain != Domain::real) {
    if (math == DType::int32) return body.template operator()<std::int32_t>();
    if (math == DType::int64) return body.template operator()<std::int64_t>();
    if (math == DType::uint8) return body.template operator()<std::uint8_t>();
  }
  if constexpr (domain == Domain::logical || domain == Domain::integral) {
    return body.template operator()<bool>();
  } else {
    if constexpr (domain == Domain::any)
      if (math == DType::bool_) return body.template operator()<bool>();
    if (math == DType::float64) return body.template operator()<double>();
    return body.template operator()<float>();
  }
}

}  // namespace ringrad::kernels::elementwise
