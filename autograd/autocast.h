// Autocast: matrix products and convolutions in 16 bits; numerically delicate operations in
// float32.
//
//     {
//       const Autocast mixed(DType::bfloat16);
//       loss = cross_entropy(net(x), y);        net's parameters stay float32
//     }
//     loss.backward();
//
// Within the scope, on this thread,
//
//     matmul, linear, convolutions                take float operands as the 16-bit dtype
//     softmax, log_softmax, all losses            take 16-bit operands as float32
//     everything else                             computes in its operands' dtype; norms keep their
//                                                 statistics, and all sums accumulate, in float32
//
// Conversions are recorded like any operation, so parameters get float32 gradients: they are the
// master weights of the usual recipe. A backward pass computes in the dtypes of its forward pass,
// even inside a scope. float64 does not change. With float16, whose smallest normal number is 6e-5,
// scale the loss (nn/optimizer/grad_scaler.h); bfloat16 has the range of float32.
//
// Paper: Micikevicius et al. 2018, "Mixed precision training", arXiv:1710.03740

#pragma once

#include <tuple>

#include "ringrad/core/base/scoped_value.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

namespace detail {
inline constinit thread_local DType autocast_dtype = DType::float32;
}  // namespace detail

struct Autocast : ScopedValue<DType> {
  /// float32 switches autocasting off until the end of the scope.
  /// Throws DTypeError unless float16, bfloat16 or float32.
  explicit Autocast(DType dtype, Where where = Where::current())
      : ScopedValue(detail::autocast_dtype, dtype) {
    RINGRAD_CHECK(math_dtype(dtype) == DType::float32, DTypeError, where,
                  "Autocast: the dtype must be bfloat16, float16 or float32; got ", dtype);
  }
};

// -- For operators --------------------------------------------------------------------------------

/// The dtype of the scope; float32 outside any scope.
inline DType autocast_dtype() { return detail::autocast_dtype; }
inline bool autocasting() { return autocast_dtype() != DType::float32; }

/// x in the 16-bit dtype of the scope if it is a float of at most 32 bits. An undefined tensor
/// stays undefined.
Tensor narrowed(const Tensor& x, Where where);

/// x in float32 if it is a 16-bit float.
Tensor widened(const Tensor& x, Where where);

namespace detail {
template <class F, class... Tensors>
auto without_autocast(F&& f, const std::tuple<Tensors...>& x) {
  const Autocast off(DType::float32);
  return std::apply(f, x);
}
}  // namespace detail

/// f of the narrowed tensors, with autocasting switched off.
template <class F, class... Tensors>
auto with_narrowed(Where where, F&& f, const Tensors&... x) {
  return detail::without_autocast(f, std::tuple{narrowed(x, where)...});
}

/// f of the widened tensors, with autocasting switched off.
template <class F, class... Tensors>
auto with_widened(Where where, F&& f, const Tensors&... x) {
  return detail::without_autocast(f, std::tuple{widened(x, where)...});
}

}  // namespace ringrad
