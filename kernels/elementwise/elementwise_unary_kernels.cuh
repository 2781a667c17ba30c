// The kernels of unary elementwise rows, for the sources that instantiate rows. Private to
// kernels/elementwise/*_cuda.cu.

#pragma once

#include "ringrad/kernels/elementwise/elementwise_cuda.h"
#include "ringrad/kernels/elementwise/elementwise_rules.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace unary_rows {

template <class Op>
struct Forward {
  Op op;
  constexpr auto operator()(auto x) const { return op.forward(x); }
};

template <class Op>
struct Backward {
  Op op;
  template <class T>
  constexpr T operator()(T grad, T saved) const {
    return op.backward(grad, saved);
  }
};

}  // namespace unary_rows

template <class Op>
void unary(const Op& op, DType dtype, const Tensor& x, const Tensor& out, Where where) {
  elementwise::dispatch<Op::kDomain>(math_dtype(dtype), [&]<class T>() {
    map<elementwise::UnaryResult<Op, T>, T>(Op::kName, unary_rows::Forward<Op>{op}, out, {&x},
                                            where);
  });
}

template <class Op>
void unary_backward(const Op& op, const Tensor& grad_output, const Tensor& saved, const Tensor& out,
                    Where where) {
  elementwise::dispatch<ops::Domain::real>(math_dtype(grad_output.dtype()), [&]<class T>() {
    map<T, T, T>(Op::kName, unary_rows::Backward<Op>{op}, out, {&grad_output, &saved}, where);
  });
}

#define RINGRAD_UNARY(...) \
  template void unary(const __VA_ARGS__&, DType, const Tensor&, const Tensor&, Where)
#define RINGRAD_UNARY_INTO(...) static_assert(true)  // the same kernels
#define RINGRAD_UNARY_WITH_BACKWARD(...)                                                        \
  RINGRAD_UNARY(__VA_ARGS__);                                                                   \
  template void unary_backward(const __VA_ARGS__&, const Tensor&, const Tensor&, const Tensor&, \
                               Where)

}  // namespace ringrad::kernels::cuda
